// Runs before the first paint, so that the wrong theme never flashes. A file, because inline scripts are forbidden.
(function () {
  var theme;
  try {
    theme = localStorage.getItem("scanner-operator.theme");
  } catch {
    theme = null;
  }
  var dark =
    theme === "dark" || (theme !== "light" && window.matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.classList.toggle("dark", dark);
})();
