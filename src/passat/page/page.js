// Builds the page.

startHead();
startChanges();
startRules();
startEGraph();
startListing();
startRounds();
startPasses();
startOperators();
requestAnimationFrame(() => setTimeout(() => {
  document.documentElement.dataset.drawn = String(Math.round(performance.now()));
}));
