"""axe-core (github.com/dequelabs/axe-core) on a page in the browser. `npm install --prefix tools/axe` brings it."""

import re
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "tools/axe/node_modules/axe-core/axe.min.js"

_RUN = """
const done = arguments[arguments.length - 1];
axe.run(arguments[0], {resultTypes: ["violations"]}).then(
    found => done(found.violations.flatMap(v => v.nodes.map(n => [v.impact, v.id, n.target.join(" "), n.html]))),
    problem => done([["critical", "axe failed", String(problem), ""]]));
"""


def installed() -> bool:
    """Is axe-core here?"""
    return FILE.exists()


def serious(driver, *only: str, but: tuple[tuple[str, str], ...] = ()) -> list[str]:
    """What axe calls serious or critical on the page, or in its parts `only`, which are CSS selectors.

    `but` has exceptions: a rule, and the class of the elements that may break this rule and no other.
    """
    driver.execute_script(FILE.read_text(encoding="utf-8"))
    driver.set_script_timeout(120)
    found = driver.execute_async_script(_RUN, {"include": [[part] for part in only or ("html",)]})
    return [
        f"{rule}: {place}: {text[:200]}"
        for impact, rule, place, text in found
        if impact in ("serious", "critical")
        and not any(rule == known and re.match(rf'<\w+ class="[^"]*\b{name}\b', text) for known, name in but)
    ]
