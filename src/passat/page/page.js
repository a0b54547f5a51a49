// Puts the page together.

startHead();
startGraphs();
startRules();
startEGraph();
startRounds();
startPasses();
startOperators();
requestAnimationFrame(() => setTimeout(() => {
  document.documentElement.dataset.drawn = String(Math.round(performance.now()));
}));
