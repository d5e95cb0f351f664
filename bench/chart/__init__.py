"""Charts of bench/RESULTS.md: plain SVG files and docs/performance.md, which shows them."""
