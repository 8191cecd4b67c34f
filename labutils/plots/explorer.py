"""A picture with controls. Live in Jupyter and Colab; a plain picture with its text wherever nothing is live."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import environment
from ..language.show import shown, shown_page
from .base import Unavailable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VIEW = "application/vnd.jupyter.widget-view+json"
DPI = 120


@dataclass(frozen=True)
class Slider:
    """A whole number from `low` to `high` in steps of `step`; `doubling` makes it a power of two."""

    label: str
    low: int
    high: int
    step: int = 1
    doubling: bool = False

    def accept(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{self.label} is a whole number, not {value!r}")
        if not self.low <= value <= self.high:
            raise ValueError(f"{self.label} goes from {self.low} to {self.high}, not to {value}")
        return value

    def widget(self, w, value: int, style: dict):
        if self.doubling:
            powers = [1 << k for k in range(self.low.bit_length() - 1, self.high.bit_length()) if 1 << k >= self.low]
            powers = sorted({*powers, value})
            return w.SelectionSlider(options=powers, value=value, description=shown(self.label), **style)
        return w.IntSlider(value, self.low, self.high, self.step, description=shown(self.label), **style)


@dataclass(frozen=True)
class Choice:
    """One of a few names."""

    label: str
    options: tuple[str, ...]

    def accept(self, value: Any) -> str:
        if value not in self.options:
            raise ValueError(f"{self.label} is one of {', '.join(self.options)}, not {value!r}")
        return value

    def widget(self, w, value: str, style: dict):
        options = [(shown(option), option) for option in self.options]
        return w.Dropdown(options=options, value=value, description=shown(self.label), **style)


@dataclass(frozen=True)
class Quantity:
    """Any number, typed in."""

    label: str

    def accept(self, value: Any) -> float:
        return float(value)

    def widget(self, w, value: float, style: dict):
        return w.FloatText(value=value, description=shown(self.label), **style)


Control = Slider | Choice | Quantity


class Explorer:
    """`draw(**state)` gives the picture; each control changes one entry of the state.

    `state` is a dict, `set(threads=128)` changes it from code, `figure()` draws it. Sliders take the arrow keys.
    """

    def __init__(self, draw: Callable[..., Figure], controls: Mapping[str, Control], state: Mapping[str, Any]):
        self._draw, self._controls = draw, dict(controls)
        self._state = {name: control.accept(state[name]) for name, control in self._controls.items()}
        self._views: dict[str, Any] = {}
        self._picture: Any = None
        self._view: Any = None

    @property
    def state(self) -> dict[str, Any]:
        return dict(self._state)

    def set(self, **changes: Any) -> None:
        """Change entries of the state. Raises ValueError for what the controls do not allow."""
        for name, value in changes.items():
            if name not in self._controls:
                raise ValueError(f"there is no control {name!r}; there are {', '.join(self._controls)}")
            changes[name] = self._controls[name].accept(value)
        self._state.update(changes)
        for name, value in changes.items():
            if name in self._views and self._views[name].value != value:
                self._views[name].value = value
        self._show()

    def figure(self) -> Figure:
        """The picture for the present state; its message in words is `figure().alt`."""
        return self._draw(**self._state)

    def _html(self) -> str:
        picture = self.figure()
        text = html.escape(picture.alt)
        return f'{picture.to_html(DPI)}<p role="status" style="line-height:1.4;max-width:48em">{text}</p>'

    def _show(self) -> None:
        if self._picture is not None:
            self._picture.value = shown_page(self._html())

    def widget(self):
        """The ipywidget: the controls above the picture; on a narrow screen below each other."""
        if self._view is None:
            import ipywidgets as w

            layout = w.Layout(flex="1 1 320px", width="auto", min_width="240px", max_width="480px")
            style = {"layout": layout, "style": {"description_width": "initial"}}
            for name, control in self._controls.items():
                view = control.widget(w, self._state[name], style)
                view.observe(lambda change, name=name: self._follow(name, change["new"]), "value")
                self._views[name] = view
            self._picture = w.HTML(shown_page(self._html()))
            row = w.Box(list(self._views.values()), layout=w.Layout(flex_flow="row wrap", width="100%"))
            self._view = w.VBox([row, self._picture], layout=w.Layout(width="100%"))
        return self._view

    def _follow(self, name: str, value: Any) -> None:
        if self._state[name] != value:
            self._state[name] = value
            self._show()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        if environment.grading_in_progress():
            return {"text/plain": "picture skipped while grading"}
        try:
            bundle = {"text/html": self._html(), "text/plain": self.figure().alt}
            if live():
                bundle[VIEW] = self.widget()._repr_mimebundle_()[VIEW]
        except Unavailable as e:
            return {"text/plain": f"No picture: {e}"}
        return bundle


def live() -> bool:
    """Is there a notebook at the other end that could move a slider?"""
    try:
        import ipywidgets  # noqa: F401
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None
