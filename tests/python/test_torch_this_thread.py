"""Functions that are exchanged for the thread that traces, and stay PyTorch's for all others."""

import threading
import types

import pytest

torch = pytest.importorskip("torch")

import lowtide  # noqa: E402
from lowtide.pytorch import this_thread  # noqa: E402


def in_another_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_only_this_thread_sees_what_is_exchanged():
    holder = types.SimpleNamespace(add=lambda a, b: a + b, name=lambda: "theirs")
    add, name = holder.add, holder.name
    with this_thread.exchanged((holder, "add", lambda before, a, b: 10 * before(a, b)), (holder, "name", lambda before: "ours")):
        assert (holder.add(1, b=2), holder.name()) == (30, "ours")
        assert in_another_thread(lambda: (holder.add(1, 2), holder.name())) == (3, "theirs")
    assert holder.add is add and holder.name is name


def test_what_was_inherited_is_so_again_and_pythons_own_functions_can_be_exchanged():
    class Base:
        def add(self, one):
            return 1 + one

    class Derived(Base):
        pass

    module = types.ModuleType("module")
    exec("def doubled(x): return 2 * float(x)", module.__dict__)
    with this_thread.exchanged((Derived, "add", lambda before, self, one: -before(self, one)), (module, "float", lambda before, x: before(x) + 1)):
        assert Derived().add(2) == -3 and Base().add(2) == 3 and module.doubled("2") == 6
        assert in_another_thread(lambda: (Derived().add(2), module.doubled("2"))) == (3, 4)
    assert "add" not in vars(Derived) and "float" not in vars(module) and module.doubled("2") == 4


def test_while_a_step_is_traced_all_of_torch_is_as_before_for_other_threads():
    def work():
        p, norm = torch.nn.Parameter(torch.ones(2)), torch.nn.BatchNorm1d(3, momentum=None)
        p.sum().backward()
        norm(torch.arange(12.0).reshape(4, 3))
        p.register_hook(lambda g: g)
        return (p.grad.tolist(), float(torch.ones(1)), int(torch.ones(1)), bool(torch.ones(1)), type(torch.get_rng_state()),
                torch.autograd.grad(p.sum(), p)[0].tolist(), norm.running_mean.tolist(), torch.ones(2).tolist(), torch.ones(2).numpy().flags.writeable,
                torch.nn.functional.ctc_loss(torch.zeros(3, 1, 2), torch.ones(1, 1, dtype=torch.long), (3,), (1,)).item())

    wanted = work()

    def loss_fn(model, batch):
        assert in_another_thread(work) == wanted
        return model(batch).square().mean()

    model = torch.nn.Linear(3, 3)
    lowtide.plan(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(2, 3), effort=0.1)
    assert work() == wanted and "float" not in vars(torch.nn.modules.batchnorm) and "tolist" not in vars(torch.Tensor)


def test_an_error_puts_all_back():
    holder = types.SimpleNamespace(add=lambda a, b: a + b)
    add = holder.add
    with pytest.raises(ZeroDivisionError), this_thread.exchanged((holder, "add", lambda before, a, b: a / b)):
        holder.add(1, 0)
    assert holder.add is add


def test_one_within_another_goes_through_both():
    holder = types.SimpleNamespace(add=lambda a, b: a + b)
    with this_thread.exchanged((holder, "add", lambda before, a, b: 10 * before(a, b))):
        with this_thread.exchanged((holder, "add", lambda before, a, b: before(a, b) + 1)):
            assert holder.add(1, 2) == 31
        assert holder.add(1, 2) == 30
