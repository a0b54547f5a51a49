"""The prose of the code and the documents avoids the constructions that CONTRIBUTING.md rules out; `make lint` runs this file."""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("rules", "src", "passmgr", "runtime", "ir", "docs", "examples", "benchmarks", "tests", "README.md", "CONTRIBUTING.md")
INSTEAD: Final = {
    r"so many\b(?! that)": "state the number or the limit",
    r"nor (is|are|does|do|has|have|can) (it|they|there|what|the)\b": "use a sentence with the subject first",
    r"as it stands": "'unchanged', 'as is'",
    r"whoever": "name who",
    r"(is|are|was|be) told\b(?! apart)": "say who reports what to whom",
    r"(is|are|be|or|and|as|of|from) no numbers?\b(?! of)": "'NaN'",
    r"of which there (is|are)\b": "use 'there is'",
    r"that which": "name the thing",
    r"put off": "'banned' (back-off), 'deferred'",
    r"taken out of (an|its|the) e-graphs?": "'extracted from'",
    r"equal expressions become one": "'common subexpressions are eliminated'",
    r"nobody": "'unused', 'unknown', or name who",
    r"whatever": "'any', 'every', 'regardless of'",
    r"dearer": "'more expensive'",
    r"refus(e[sd]?|ing|al)\b(?! to\b)": "'reject', 'rejection'",
    r"mend(s|ed|ing)?\b": "'fix'",
    r"(taken|takes?|taking) out\b": "'extract'",
    r"t(ell|ells|old|elling) (\w+ ){0,3}apart": "'distinguish'",
    r"one's own": "'your own', 'user-defined'",
    r"parted\b": "'separated'",
    r"(has|have) not (a|an|the)\b": "'does not have'",
    r"(?<!there )(is|are) no (tensor|model|type|constant|matrix|vector|text|call|operator|file|folder|string|expression|splat|mask|product|rule|match|row|scalar|such)\b": "'is not a'",
    r"as it came in": "'the original'",
    r"what it is worth": "'its effect', 'its benefit'",
    r"(makes?|made) no rule": "'does not make a rule'",
    r"at any cost": "'regardless of cost'",
    r"can(not)? stand in": "'occur in'",
    r"(go|goes|going) along\b": "'follows', or say what changes accordingly",
    r"turn(s|ed|ing)? (it|them) around": "'reverses'",
    r"(is|are|were|become) better known": "'has a more precise type', 'more of it is known'",
    r"(so|and|as) this is a walk": "'a walk, not rules: ...', 'a walk, since ...'",
    r"(many|follows?) them alike": "'every'",
    r"what (\w+ ){1,5}makes? of\b": "'the result of'",
    r"looks? into\b": "'match', 'read'",
    r"(came|comes?) back\b(?! from\b)": "'is returned'",
    r"asked for\b": "'requested'",
    r"makes? no sense\b": "'invalid'",
    r"(some|any)thing else than\b": "'other ... than'",
    r"now and then\b": "'sometimes'",
    r"gets? (its|their) turn\b": "'runs'",
    r"speaks? of\b": "'mentions', 'is about'",
    r"(raises (\w+\.)*\w+error|none|empty|same (object|module|node)) where\b": "'if'",
    r"called where (it|they) stands?\b": "'called directly'",
    r"(takes?|took|taking|in) the place of\b": "'replace', 'instead of'",
    r"by way of\b": "'through', 'indirectly'",
    r"what (becomes? of|stands? for)\b": "name the result, the replacement",
    r"its like\b": "'such as', 'similar'",
    r"another (\w+ )?than\b": "'a different ...', '... other than'",
    r"(?<!there )(is|are) no errors?\b": "'is ignored', 'is valid'",
    r"fold(s|ed)? away\b": "'collapse'",
}


@cache
def _texts() -> list[tuple[Path, str, str]]:
    """All files with their contents, as written and in lower case, read once for all constructions."""
    listed = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = (ROOT / name for name in listed.splitlines() if name.endswith((".py", ".md")))
    paths = [path for path in named if not path.is_symlink() and path != Path(__file__).resolve()]
    return [(path, text, text.lower()) for path in paths for text in [path.read_text(encoding="utf-8")]]


@pytest.mark.parametrize("words", INSTEAD)
def test_no_file_has_the_construction(words: str) -> None:
    wrong = re.compile(rf"\b(?:{words})", re.IGNORECASE)
    perhaps = re.compile(words)  # eight times as fast, since it ignores neither case nor beginnings of words
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path, text, lower in _texts()
        if perhaps.search(lower)
        for number, line in enumerate(text.splitlines(), 1)
        if wrong.search(line)
    ]
    assert not found, f"write {INSTEAD[words]} instead:\n" + "\n".join(found)
