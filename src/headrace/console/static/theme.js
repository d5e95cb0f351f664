// Before anything is drawn, so that nobody sees the wrong colours first.
{
  const kept = localStorage.getItem("headrace-theme");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = kept ?? (dark ? "dark" : "light");
}
