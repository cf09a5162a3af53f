"""Questions about the objects of CLEVR's scenes."""
