// A table or a line of code that is wider than the page scrolls in a frame, which the keyboard must reach. The theme makes
// the frames of tables late.
const reachable = () => {
  for (const frame of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) frame.tabIndex = 0;
};
new MutationObserver(reachable).observe(document.documentElement, { childList: true, subtree: true });
reachable();
