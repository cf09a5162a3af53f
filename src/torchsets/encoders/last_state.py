"""The last state of a recurrent network behind lists of different lengths."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pack_padded_sequence

from torchsets._autograd import refuse_recording, run_lstm


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
        refuse_recording(f'{caller} with state="cell"')
        packed = pack_padded_sequence(
            lists, sizes.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        last = recurrent(packed)[1][1][-1]
    else:
        if isinstance(recurrent, nn.LSTM) and recurrent.num_layers == 1:
            states = run_lstm(recurrent, lists)  # (R, N, L)
        else:
            states = recurrent(lists)[0]
        # It does not look ahead, so what lies behind the last real element is ignored.
        place = (sizes - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[2])
        last = states.gather(1, place).squeeze(1)
    return torch.where(sizes.unsqueeze(1) > 0, last, 0)[:count]
