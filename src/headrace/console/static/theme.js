// Runs before the page is drawn, so that the wrong colours never flash up.
{
  const kept = localStorage.getItem("headrace-theme");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = kept ?? (dark ? "dark" : "light");
}
