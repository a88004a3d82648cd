"""Numbers of the step that the user's code keeps are there after each step as in eager mode; texts made of them are refused by name."""

import collections
import copy
import types
import warnings

import pytest
from torch_models import torch

import lowtide

nn, F = torch.nn, torch.nn.functional

BEST = 0.0


class Meter:
    def __init__(self):
        self.sum, self.count, self.history, self.parts = 0.0, 0, [], {"sum": 0.0, "last": None}

    def add(self, value, n):
        self.sum += value * n
        self.count += n


def smoothed(kept, y, loss):
    """An average that forgets, begun by the first loss."""
    now = loss.detach().item()
    kept.average = now if kept.average is None else 0.9 * kept.average + 0.1 * now


def metered(kept, y, loss):
    kept.meter.add(loss.item(), len(y))


def counted(kept, y, loss):
    """Whole numbers that the batch decides, and a truth value."""
    kept.right += (y.argmax(1) == 2).sum().item()
    kept.any = (y > 1).any().item()


def entry(kept, y, loss):
    kept.meter.parts["sum"] += loss.item()
    kept.meter.parts["last"] = [y.mean().item(), {"most": y.max().item()}]


def nonlocal_total(kept, y, loss):
    kept.in_cell(loss)


def a_list_of_one(kept, y, loss):
    kept.one[0] = kept.one[0] + 2 * loss.item()


def last_three(kept, y, loss):
    kept.window.append(loss.item())


def of_globals(kept, y, loss):
    global BEST
    BEST = loss.item() / 2


def rows(kept, y, loss):
    kept.rows = y.detach().sum(1).tolist()
    kept.log.extend((name, value) for name, value in zip("ab", y.detach()[:2, 0].tolist(), strict=True))


KEPT = [smoothed, metered, counted, entry, nonlocal_total, a_list_of_one, last_three, of_globals, rows]


def kept_of():
    total, dead = 0.0, [0]

    def in_cell(loss):
        nonlocal total
        total += loss.item()
        dead.append(total)

    return types.SimpleNamespace(average=None, meter=Meter(), right=0, any=False, one=[0.5], window=collections.deque(maxlen=3), rows=None, log=[],
                                 in_cell=in_cell, dead=dead)


def seen(kept):
    """All plain values in it; an object of another kind fails."""
    def plain(value):
        if isinstance(value, (list, tuple, collections.deque)):
            return type(value), [plain(v) for v in value]
        if isinstance(value, dict):
            return {key: plain(v) for key, v in value.items()}
        assert type(value) in (int, float, bool, str, type(None)), type(value)
        return type(value), value
    return [{name: plain(v) for name, v in vars(kept).items() if name not in ("in_cell", "meter")}, plain(vars(kept.meter)), plain(BEST)]


def batch(k):
    return torch.randn(4, 5, generator=torch.Generator().manual_seed(k))


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def losses(write, kept, planned, steps=4, **options):
    model, optimizer = network()

    def loss_fn(m, x):
        y = m(x)
        loss = y.square().mean()
        write(kept, y, loss)
        return loss

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = lowtide.compile_step(model, loss_fn, optimizer, batch(0), effort=0.1, **options) if planned else None
        if planned:
            found.append(seen(kept))
        for k in range(steps):
            if planned:
                loss = step(batch(k))
            else:
                optimizer.zero_grad()
                loss = loss_fn(model, batch(k))
                loss.backward()
                optimizer.step()
            found.append((loss.item(), seen(kept)))
    return found, step


@pytest.mark.parametrize("write", KEPT, ids=lambda f: f.__name__)
def test_a_number_is_there_after_each_step(write):
    global BEST
    BEST = 0.0
    wanted, _ = losses(write, kept_of(), False)
    BEST = 0.0
    before = seen(kept_of())
    found, step = losses(write, kept_of(), True, rehearse=write in (entry, rows))
    assert found[0] == before  # compile_step changes nothing
    assert found[1:] == wanted
    assert len(step._ready) <= 2  # a number that is added to makes no plan of its own in each step


def test_hooks_of_modules_keep_numbers():
    def run(planned):
        model, optimizer = network()
        log, norms = [], {}
        model[0].register_forward_hook(lambda m, given, out: log.append(out.std().item()))
        model[2].register_forward_pre_hook(lambda m, given: norms.update(given=given[0].norm().item()))
        model[1].register_full_backward_hook(lambda m, gi, go: log.append((go[0].norm().item(), gi[0].abs().max().item())))
        model[2].register_full_backward_pre_hook(lambda m, go: log.append(go[0].sum().item()))

        def loss_fn(m, x):
            return m(x).square().mean()
        if planned:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                step = lowtide.compile_step(model, loss_fn, optimizer, batch(0), effort=0.1)
                assert (log, norms) == ([], {})
                for k in range(3):
                    step(batch(k))
        else:
            for k in range(3):
                optimizer.zero_grad()
                loss_fn(model, batch(k)).backward()
                optimizer.step()
        return log, norms
    assert run(True) == run(False)


def text_in_a_list(kept, y, loss):
    kept.log.append("step: %s" % loss.item())


def key_of_a_dict(kept, y, loss):
    kept.meter.parts[f"at {loss.item():.2f}"] = 1


def of_a_tensor(kept, y, loss):
    kept.rows = {"shown": repr(y)}


def bytes_of_a_text(kept, y, loss):
    kept.rows = "{:.1e}".format(loss.item()).encode()  # noqa: UP032


def in_an_object(kept, y, loss):
    kept.last = types.SimpleNamespace(text=f"{loss.item()}")


def number_in_an_object(kept, y, loss):
    kept.last = types.SimpleNamespace(value=loss.item())


@pytest.mark.parametrize("write", [text_in_a_list, key_of_a_dict, of_a_tensor, bytes_of_a_text, in_an_object, number_in_an_object],
                         ids=lambda f: f.__name__)
def test_what_no_step_can_write_anew_is_refused(write):
    kept = kept_of()
    before = seen(kept)
    of_text = "text" in write.__name__ or write in (key_of_a_dict, of_a_tensor, in_an_object)
    said = r"test_torch_kept_numbers\.py:\d+: .*return loss, aux" if of_text else "as tuples, lists or dicts"
    with pytest.raises(lowtide.Unsupported, match=said) as refused:
        losses(write, kept, True)
    assert "\n" not in str(refused.value) and seen(kept) == before


def float_of(kept, y, loss):
    kept.log.append(float(loss))


def int_of(kept, y, loss):
    kept.rows = [int(y.argmax())]


def formatted(kept, y, loss):
    kept.log.append("%.3f" % loss)


@pytest.mark.parametrize("write", [float_of, int_of, formatted], ids=lambda f: f.__name__)
def test_a_number_that_is_asked_for_at_once_is_refused_with_the_way_round(write):
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_kept_numbers\.py:\d+: .*at once .*\.item\(\) in the place of int\(\) and float\(\)"):
        losses(write, kept_of(), True)


def used_in_the_step(kept, y, loss):
    """A number of the step before, in the graph's arithmetic of a dict that is put anew."""
    kept.parts = {"sum": kept.parts["sum"] + loss.item()}


def test_a_number_in_a_container_that_is_put_anew_in_each_step_is_refused():
    kept = kept_of()
    kept.parts = {"sum": 0.25}
    with pytest.raises(lowtide.Unsupported, match="'kept.parts'.*register_buffer"):
        losses(used_in_the_step, kept, True)
    assert kept.parts == {"sum": 0.25}


def test_a_number_of_the_step_before_is_read_in_each_step():
    """The loss itself depends on it."""
    def run(planned):
        model, optimizer = network()
        scale = types.SimpleNamespace(of=0.5)

        def loss_fn(m, x):
            loss = m(x).square().mean() * scale.of
            scale.of = 0.5 * scale.of + loss.item()
            return loss
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step = lowtide.compile_step(model, loss_fn, optimizer, batch(0), effort=0.1) if planned else None
        for k in range(4):
            if planned:
                loss = step(batch(k))
            else:
                optimizer.zero_grad()
                loss = loss_fn(model, batch(k))
                loss.backward()
                optimizer.step()
            found.append((loss.item(), scale.of))
        return found, copy.deepcopy(model.state_dict()), step
    found, state, step = run(True)
    wanted, its, _ = run(False)
    assert found == wanted and all(torch.equal(state[k], its[k]) for k in its)
    assert len(step._ready) == 1
