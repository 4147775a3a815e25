"""Code, pages and messages use the field's terms: no private word comes back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("engine", "schemas", "pipeline", "docs", "README.md")
PRIVATE = re.compile(
    r"(?<![a-z])(?:(?:un)?told|fed|asked|whoever|nobody|somebody|shel(?:f|ves)|mend(?:s|ed|ing)?|bur(?:y|ied)|probing"
    r"|aloud|lanes?|hops?|letters?)(?![a-z])",
    re.IGNORECASE,
)
ENGLISH = re.compile(r"told apart|dead[ _-]?letters?|to the letter|\"letters\":", re.IGNORECASE)
"""Phrases, and a member of `dlq list --json`, in which such a word is no term of ours."""
ALLOWED = {
    # The columns of a vector register.
    "engine": {"lane", "lanes"},
    "docs/engines/evq.md": {"lanes"},
    # Of a file's name.
    "pipeline/cli/file_settings.py": {"letter"},
}


def private_words(path):
    """The private words of a file, those over the end of a line included."""
    text = re.sub(r"(?: \")?\s*\n[\s#\"f]*", " ", path.read_text())
    return {word.lower() for word in PRIVATE.findall(ENGLISH.sub("", text))}


@pytest.mark.parametrize("place", PLACES)
def test_no_private_word_comes_back(place):
    top = ROOT / place
    files = [top] if top.is_file() else [path for path in top.rglob("*") if path.suffix in (".py", ".md", ".json")]
    # Digests have such words by chance.
    files = [path for path in files if path.name != "built.json"]
    found = {}
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        known = [words for at, words in ALLOWED.items() if f"{name}/".startswith(f"{at}/")]
        if words := private_words(path).difference(*known):
            found[name] = words
    assert found == {}


def test_a_word_over_two_lines_or_within_a_name_is_found(tmp_path):
    file = tmp_path / "a.py"
    file.write_text('told_from = "dead\n    letters, letters"\n# who told\n# apart and mended\n')
    assert private_words(file) == {"told", "letters", "mended"}
