"""Parts of pages that are made from the recorded runs: for the site and for results/README.md."""
