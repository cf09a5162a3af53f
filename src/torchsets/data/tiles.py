"""Cut pictures into the tiles of a grid, put them together again, and shuffle them."""

import torch
from torch import Tensor

from torchsets._checks import check_shape


def image_to_tiles(images: Tensor, grid: tuple[int, int]) -> Tensor:
    """Cut each picture into tiles of equal size, row by row.

    Sizes that the grid does not divide are an error, because padding or cropping would change
    the picture: rescale it first, with :func:`mosaic_size` and :func:`resize_bilinear`.

    Args:
        images: Pictures of any dtype, (B, C, H, W).
        grid: Rows and columns.

    Returns:
        Tiles, (B, N, C, H / rows, W / columns) with N = rows * columns; the tile at a row and a
        column of the grid is number row * columns + column.

    Raises:
        ValueError: If a shape differs from the above, or the grid does not divide the size.

    Example:
        >>> image_to_tiles(torch.arange(8).view(1, 1, 2, 4), grid=(1, 2)).flatten(2)
        tensor([[[0, 1, 4, 5],
                 [2, 3, 6, 7]]])
    """
    check_shape(images, (None,) * 4, name="images", letters="(B, C, H, W)")
    rows, columns = _check_grid(grid)
    batch, channels, height, width = images.shape
    if height % rows or width % columns:
        raise ValueError(
            f"images must have a size that grid {rows} x {columns} divides, got {height} x "
            f"{width}; resize them to {mosaic_size(height, rows)} x {mosaic_size(width, columns)}"
        )
    shape = (batch, channels, rows, height // rows, columns, width // columns)
    return images.reshape(shape).permute(0, 2, 4, 1, 3, 5).flatten(1, 2).contiguous()


def tiles_to_image(tiles: Tensor, grid: tuple[int, int]) -> Tensor:
    """Put tiles together: the inverse of :func:`image_to_tiles`.

    Args:
        tiles: Tiles of any dtype in the order of the grid, row by row, (B, N, C, h, w).
        grid: Rows and columns, N = rows * columns.

    Returns:
        Pictures, (B, C, rows * h, columns * w).

    Raises:
        ValueError: If a shape differs from the above.

    Example:
        >>> images = torch.arange(105).view(1, 1, 15, 7)
        >>> torch.equal(tiles_to_image(image_to_tiles(images, (5, 1)), (5, 1)), images)
        True
    """
    rows, columns = _check_grid(grid)
    shape = (None, rows * columns, None, None, None)
    check_shape(tiles, shape, name="tiles", letters="(B, N, C, h, w)")
    batch, _, channels, height, width = tiles.shape
    apart = tiles.reshape(batch, rows, columns, channels, height, width)
    joined = apart.permute(0, 3, 1, 4, 2, 5)
    return joined.reshape(batch, channels, rows * height, columns * width)


def mosaic_size(side: int, tiles: int) -> int:
    """The length that ``side`` pixels are rescaled to for a number of tiles along it: rounded up.

    Example:
        >>> [mosaic_size(28, tiles) for tiles in (2, 3, 4, 5)]
        [28, 30, 28, 30]
    """
    return -(-side // tiles) * tiles


def shuffle_tiles(
    tiles: Tensor, *, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Put the tiles of each picture into a random order of its own.

    Args:
        tiles: Tiles in the right order, (B, N, ...).
        generator: Draws the orders, on the CPU.

    Returns:
        The shuffled tiles, (B, N, ...), and the position that each of them belongs to, (B, N),
        long: ``shuffled[b, i]`` is ``tiles[b, positions[b, i]]``.

    Example:
        >>> tiles = torch.arange(12).view(2, 6, 1)
        >>> shuffled, positions = shuffle_tiles(tiles)
        >>> torch.equal(shuffled.squeeze(2), positions + torch.tensor([[0], [6]]))
        True
    """
    # float64, so that two equal numbers do not occur and every order is equally likely
    draw = torch.rand(tiles.shape[:2], generator=generator, dtype=torch.float64)
    positions = draw.argsort(dim=1).to(tiles.device)
    return gather_tiles(tiles, positions), positions


def gather_tiles(tiles: Tensor, order: Tensor) -> Tensor:
    """Take tile ``order[b, i]`` of each picture b: (B, N, ...) and (B, M), long, to (B, M, ...)."""
    return tiles[torch.arange(len(tiles), device=tiles.device).unsqueeze(1), order]


def _check_grid(grid: tuple[int, int]) -> tuple[int, int]:
    rows, columns = grid
    if rows < 1 or columns < 1:
        raise ValueError(f"grid must have at least one row and one column, got {grid}")
    return rows, columns
