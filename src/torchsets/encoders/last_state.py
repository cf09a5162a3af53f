"""The last state of a recurrent network behind lists of different lengths."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pack_padded_sequence

from torchsets._autograd import (
    becomes_program,
    call_lstm,
    lstm_weights,
    refuse_recording,
    run_lstm,
)

_SHUT = 2.0**14  # sigmoid of it is exactly 1 in every dtype, and that of its negative exactly 0


def check_state(state: str) -> None:
    """Raise ``ValueError`` unless the state is "hidden" or "cell"."""
    if state not in ("hidden", "cell"):
        raise ValueError(f'state must be "hidden" or "cell", got {state!r}')


def last_states(
    recurrent: nn.Module, lists: Tensor, sizes: Tensor, state: str, *, caller: str
) -> Tensor:
    """The states (R, L) behind the first ``sizes`` (R,) elements of lists (R, N, D).

    ``state`` is "hidden", or "cell" for an ``nn.LSTM``. An empty list gives zeros.
    """
    count = lists.shape[0]
    if count == 0 or lists.shape[1] == 0:  # recurrent networks need one of each
        lists, sizes = pad(lists, (0, 0, 0, 1, 0, 1)), pad(sizes, (0, 1))
    if state == "cell":
        last = _last_cells(cast(nn.LSTM, recurrent), lists, sizes, caller)
    else:
        if isinstance(recurrent, nn.LSTM):
            run = run_lstm if recurrent.num_layers == 1 else call_lstm
            states, _ = run(recurrent, lists)  # (R, N, L)
        else:
            states = recurrent(lists)[0]
        # It does not look ahead, so what lies behind the last real element is ignored.
        place = (sizes - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[2])
        last = states.gather(1, place).squeeze(1)
    return torch.where(sizes.unsqueeze(1) > 0, last, 0)[:count]


def _last_cells(lstm: nn.LSTM, lists: Tensor, sizes: Tensor, caller: str) -> Tensor:
    """The cells (R, L) behind the first ``sizes`` (R,) elements of lists (R, N, D)."""
    # A hook, such as that of pruning, sets the weights when the LSTM is called.
    simple = lstm.num_layers == 1 and lstm.proj_size == 0 and not lstm._forward_pre_hooks
    if simple and (lists.device.type == "cpu" or becomes_program()):
        # One input more, 1 behind a list, shuts the input gate and keeps the forget gate open:
        # the cell stays. Packed lists of 40 take 2.5 times as long on a CPU.
        behind = torch.arange(lists.shape[1], device=lists.device) >= sizes.unsqueeze(1)
        inputs = torch.cat([lists, behind.unsqueeze(-1).to(lists.dtype)], dim=2)
        from_input, *others = lstm_weights(lstm)
        gates = torch.tensor([-_SHUT, _SHUT, 0, 0]).to(from_input)  # input, forget, cell, output
        column = gates.repeat_interleave(lstm.hidden_size).unsqueeze(1)
        return run_lstm(lstm, inputs, [torch.cat([from_input, column], dim=1), *others])[1]
    refuse_recording(f'{caller} with state="cell"')
    packed = pack_padded_sequence(
        lists, sizes.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
    )
    cells: Tensor = lstm(packed)[1][1]
    return cells[-1]
