"""What a captured graph hides, one test for each: the importer finds it, and reruns and reordering are
safe with it.

    a kernel writes statistics that its schema does not declare   test_batch_norm_writes_its_running_statistics, and
                                                                  the three below it
    an op returns its operand's memory undeclared                 test_unsafe_view_shares_memory_..., and for any other
                                                                  test_an_undeclared_alias_or_write_of_a_kernel_is_found
    after a write the tensor goes by the writing node's name      test_a_later_name_of_a_written_tensor_is_the_written_one
    writes that nobody reads are no dead code                     test_num_batches_tracked_is_written_by_an_op_of_its_own
    in-place ops: readers before, views, parts, geometry          section 3
    a call writes one tensor and gives another                test_a_call_may_write_one_...
    a forward pass writes a trained parameter                 test_a_parameter_that_the_forward_pass_writes_...
    a dropout draws, scales and keeps floats                      section 4
    a checkpoint draws its masks again, from a state kept    test_a_checkpointed_dropout_..., and the two below it
    attention with dropout leaves the flash kernel                test_attention_with_dropout_is_taken_apart_...
    attention is tagged random without dropout                    test_attention_without_dropout_does_not_draw
    views of constants are noted in other memory              test_views_of_constants_..., and the one below it
    a kernel gives less where gradients are off               test_recurrent_layers_make_what_...
    most nodes are views                                          test_views_are_no_ops_of_the_plan
    tied weights have two names                                   test_tied_weights_are_one_parameter
    parameters without a gradient                                 test_frozen_and_unused_parameters_stay_as_they_are
    one call for all updates would keep all gradients             test_an_update_takes_one_parameter
    optimizers with options that trace otherwise                  test_an_optimizer_for_captured_graphs_is_refused
    libraries make other masks when they are traced               test_grouped_attention_of_transformers_..., test_gpt2_...
    masks that are looked into                                    test_a_mask_of_constants_may_be_looked_into
    equal ops stay two                                            test_equal_ops_become_one, and the one below it
    all of the backward pass has one sequence number              test_an_op_of_the_backward_pass_knows_...
    masks that are looked into, in a compiled graph               test_torch_backend.py: test_a_target_mask_...
    a compiled graph's batch norm is functional                   test_torch_backend.py: test_batch_norms_are_...
    a norm's momentum is a number that the count of steps makes   test_a_batch_norm_over_all_batches_so_far_...
    a shape depends on lengths that come with the batch           test_a_ctc_loss_has_room_for_targets_of_any_length
    cudnn's batch norm; the one that declares its writes          test_cudnn_batch_norm_..., test_native_batch_norm_legit_...
    code that looks into tensors                                  test_torch_capture.py
    a graph that breaks (a warning that is logged in a loss)      test_torch_backend.py: test_a_graph_that_breaks_...
    dynamo skips what runs below a dispatch mode                  test_our_dispatch_modes_let_dynamo_compile
"""

import threading

import pytest
from torch_models import (
    LARGE_IMAGES,
    OPTIMIZERS,
    Translator,
    assert_equal_steps,
    build,
    differences,
    eager_step,
    torch,
    trained,
    twin,
)

from torch.utils.checkpoint import checkpoint

import lowtide
from lowtide.pytorch import calls, devices, known, planning, trace, units

nn, F = torch.nn, torch.nn.functional
aten = torch.ops.aten


def captured(model, batch, loss_fn, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(trained(model), lr=0.1)
    return planning.capture(model, loss_fn, optimizer, batch, planning.StepOptions())


def ops(found):
    return [call.name for unit in found.units for call in unit.calls]


def unit_of(found, name):
    return next(unit for unit in found.units if any(call.name == name for call in unit.calls))


class Net(nn.Module):
    """A forward pass from a function of (module, x)."""

    def __init__(self, forward, **modules):
        super().__init__()
        self.weight, self.run = nn.Parameter(torch.full((4, 4), 0.3)), forward
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x):
        return self.run(self, x)


def check(forward, optimizer="sgd", budget=None, rows=4, **modules):
    """The net's steps are eager mode's; gives the captured step."""
    torch.manual_seed(0)
    model, batch = Net(forward, **modules), torch.randn(rows, 4)
    loss_fn = lambda m, x: m(x).square().mean()  # noqa: E731
    other, mine, its = twin(model, OPTIMIZERS[optimizer])
    made = lowtide.compile_step(model, loss_fn, mine, batch, budget=budget, effort=0.2)
    assert_equal_steps(made, model, mine, other, its, loss_fn, batch)
    assert made.memory.beside == 0
    return made._now.planned.captured


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("lengths", ["of the batch", "of Python"])
def test_a_ctc_loss_has_room_for_targets_of_any_length(lengths, reduction):
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6))

        def forward(self, x):
            return (x @ self.weight).log_softmax(-1)

    def loss_fn(model, b):
        inputs, targets = (b["inputs"], b["lengths"]) if "inputs" in b else ((12, 11, 9), (5, 4, 3))
        return F.ctc_loss(model(b["x"]), b["targets"], inputs, targets, reduction=reduction, zero_infinity=True)

    torch.manual_seed(0)
    model, batch = Head(), {"x": torch.randn(12, 3, 4), "targets": torch.randint(1, 6, (3, 5))}
    if lengths == "of the batch":
        batch.update(inputs=torch.tensor([12, 11, 9]), lengths=torch.tensor([5, 4, 3]))
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    made = lowtide.compile_step(model, loss_fn, mine, batch)
    assert_equal_steps(made, model, mine, other, its, loss_fn, batch)
    assert made.memory.beside == 0
    if lengths == "of the batch":
        shorter = {**batch, "lengths": torch.tensor([2, 0, 3])}
        assert_equal_steps(made, model, mine, other, its, loss_fn, shorter)
        with pytest.raises(lowtide.Unsupported, match="ctc_loss of targets in one row, whose lengths are a tensor"):
            lowtide.plan(model, loss_fn, mine, {**batch, "targets": batch["targets"][:, 0].repeat(4)})


# 1. batch norm writes its statistics and does not say so


def test_batch_norm_writes_its_running_statistics():
    found = check(lambda m, x: m.norm(x @ m.weight), norm=nn.BatchNorm1d(4))
    assert not aten.native_batch_norm.default._schema.is_mutable, "it would be seen by its schema"
    names = {found.program.storages[s].name for s in unit_of(found, "aten.native_batch_norm").statistics}
    assert names == {"norm.running_mean", "norm.running_var"}


def test_cudnn_batch_norm_writes_its_running_statistics():
    """No CPU runs it: the graph is that of another norm, whose operands are the same."""
    model = Net(lambda m, x: m.norm(x @ m.weight), norm=nn.BatchNorm1d(4))
    made = trace.trace_step(trace.Model.of(model), lambda m, x: m(x).sum(), list(dict(model.named_parameters())),
                            torch.randn(4, 4), trace.Options())
    for node in made.module.graph.nodes:
        if node.target is aten.native_batch_norm.default:
            node.target = aten.cudnn_batch_norm.default
    assert not aten.cudnn_batch_norm.default._schema.is_mutable, "it would be seen by its schema"
    program = calls.read_calls(made)
    found = units.make_units(program, made.aux_count, [p.stride() for p in model.parameters()])
    norm = next(unit for unit in found if unit.name.startswith("cudnn_batch_norm"))
    assert {program.storages[s].name for s in norm.statistics} == {"norm.running_mean", "norm.running_var"}


def test_native_batch_norm_legit_says_that_it_writes_its_running_statistics_and_no_version_tells():
    def forward(m, x):
        n = m.norm
        return aten._native_batch_norm_legit(x @ m.weight, n.weight, n.bias, n.running_mean, n.running_var, True, 0.1, 1e-5)[0]

    found = check(forward, norm=nn.BatchNorm1d(4))
    unit = unit_of(found, "aten._native_batch_norm_legit")
    assert {found.program.storages[s].name for s in unit.updates} == {"norm.running_mean", "norm.running_var"}


@pytest.mark.parametrize("affine", [True, False])
def test_a_batch_norm_over_all_batches_so_far_reads_their_count_in_each_step(affine):
    found = check(lambda m, x: m.norm(x @ m.weight), norm=nn.BatchNorm1d(4, momentum=None, affine=affine))
    unit = unit_of(found, "lowtide.counted_batch_norm")
    assert {found.program.storages[s].name for s in unit.statistics} == {"norm.running_mean", "norm.running_var"}


def test_a_batch_norm_that_runs_again_leaves_the_statistics_alone():
    model, batch, loss_fn = build("unet", **LARGE_IMAGES)
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    best = lowtide.plan(model, loss_fn, mine, batch).arena_bytes
    made = lowtide.compile_step(model, loss_fn, mine, batch, budget=best * 9 // 10, effort=0.2)
    assert any(line.strip().startswith("h") and "clone" in line for line in made.source.splitlines()), "none ran again"
    assert_equal_steps(made, model, mine, other, its, loss_fn, batch, steps=2)


def test_a_batch_norm_that_is_used_twice_keeps_its_order():
    found = check(lambda m, x: m.norm(x @ m.weight) + m.norm(x @ m.weight.t()), norm=nn.BatchNorm1d(4))
    first, second = [unit for unit in found.units if unit.statistics]
    assert first.number in second.after


def test_num_batches_tracked_is_written_by_an_op_of_its_own():
    found = check(lambda m, x: m.norm(x @ m.weight), norm=nn.BatchNorm1d(4))
    unit = unit_of(found, "aten.add_.Tensor")
    assert [found.program.storages[s].name for s in unit.updates] == ["norm.num_batches_tracked"]


# 2. aliases that schemas do not show


def test_unsafe_view_shares_memory_though_its_schema_does_not_say_so():
    assert all(a.alias_info is None for a in aten._unsafe_view.default._schema.arguments)
    net = Net(lambda m, x: (x.view(2, 2, 4).transpose(0, 1) @ m.weight).relu())
    found = captured(net, torch.randn(4, 4), lambda m, x: m(x).sum())
    calls_of = [call for call in found.program.calls if call.target is aten._unsafe_view.default]
    assert calls_of and all(call.view for call in calls_of)
    assert "aten._unsafe_view" not in [unit.name for unit in found.units]


def test_views_are_no_ops_of_the_plan():
    model, batch, loss_fn = build("bert")
    found = captured(model, batch, loss_fn)
    planned = {call.name for unit in found.units for call in unit.calls}
    assert not planned & {"aten.t", "aten.view", "aten.detach", "aten.transpose.int", "aten.expand"}


def test_views_of_constants_lie_in_the_constants():
    matrix, row = torch.randn(4, 4), torch.arange(4.0)
    check(lambda m, x: (x @ m.weight @ matrix.t() + row[None]) * row.expand(4, 4) + matrix[1:3].sum())


def test_a_constant_that_the_forward_pass_makes_is_copied_in_the_plan():
    def forward(m, x):
        rows = torch.tensor([0, 1, 1, 2])
        return torch.zeros(4, 4).index_put((rows,), x @ m.weight, accumulate=True) * rows[None].expand(4, 4)

    check(forward)


def test_constants_of_one_shape_are_several():
    """A module that loss_fn closes over, as the teacher of a distillation: its tensors are constants."""
    torch.manual_seed(0)
    teacher = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)))
    found = check(lambda m, x: x @ m.weight - teacher(x).detach())
    assert len({id(c) for c in found.program.constants}) == 12


# 3. in-place ops


def test_what_is_written_in_place_is_one_unit_with_who_made_it():
    found = check(lambda m, x: torch.relu_(x @ m.weight))
    assert [call.name for call in unit_of(found, "aten.relu_").calls] == ["aten.mm", "aten.relu_"]


def test_a_value_that_is_read_before_it_is_written_is_kept():
    def forward(m, x):
        y = x @ m.weight
        z = y * 2
        y.add_(z)
        return y + z

    found = check(forward)
    assert "aten.add_.Tensor" not in ops(found), "it became a value of its own"


def test_a_part_that_is_written_in_place_is_written_in_a_copy():
    def forward(m, x):
        y = x @ m.weight
        z = y.exp()
        y[:, 1:3] = z[:, :2]
        return y * z

    check(forward)


def test_a_view_sees_what_is_written_to_its_base():
    def forward(m, x):
        y = x @ m.weight
        row = y[1]
        z = y + 1
        y.mul_(3)
        return ((y.sum() + row.sum() + z.sum()) / 99).tanh()

    check(forward)


def test_a_later_name_of_a_written_tensor_is_the_written_one():
    def forward(m, x):
        y = x @ m.weight
        z = y.add_(1)
        return y * z.tanh()

    check(forward)


def test_an_in_place_change_of_geometry_is_a_view():
    check(lambda m, x: ((x @ m.weight).t_() * 2).unsqueeze_(0))


def test_an_in_place_change_of_geometry_whose_form_has_another_name_is_a_view():
    assert calls.functional(aten.transpose_.default) is aten.transpose.int
    check(lambda m, x: (x @ m.weight).transpose_(0, 1).swapaxes_(0, 1).transpose_(1, 0) * torch.arange(4))


def test_a_buffer_that_is_written_and_read_keeps_its_order():
    class Moving(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x):
            before = x - self.mean
            self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
            return before * self.mean

    check(lambda m, x: m.moving(x @ m.weight), moving=Moving())


def test_a_buffer_that_is_assigned_anew_is_written_where_it_was():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen = self.seen + x.shape[0]
            return x / self.seen

    torch.manual_seed(0)
    model = Net(lambda m, x: m.counting(x @ m.weight), counting=Counting())
    batch = torch.randn(4, 4)
    made = lowtide.compile_step(model, lambda m, x: m(x).sum(), torch.optim.SGD(trained(model), lr=0.1), batch)
    made(batch)
    made(batch)
    assert float(model.counting.seen) == 8


def test_writing_to_the_batch_is_refused_by_name():
    net = Net(lambda m, x: x.mul_(2) @ m.weight)
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_traps.py:\d+: .*'batch.0' is written in place"):
        captured(net, torch.randn(4, 4), lambda m, x: m(x).sum())


def test_a_call_may_write_one_tensor_and_give_another():
    """rrelu writes the slopes that it draws."""
    assert aten.rrelu_with_noise.default._schema.is_mutable
    check(lambda m, x: F.rrelu(x @ m.weight, training=True))


def of_indices(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def test_a_parameter_that_the_forward_pass_writes_is_as_before_when_the_step_fails():
    """Of an embedding with max_norm, whose kernel allocates what its indices say."""
    torch.manual_seed(0)
    model, batch = nn.Embedding(5, 4, max_norm=0.5), (torch.tensor([0, 1, 1, 4]), torch.tensor([3, 0, 1, 2]))
    other, mine, its = twin(model, OPTIMIZERS["adamw"])
    made = lowtide.compile_step(model, of_indices, mine, batch)
    assert_equal_steps(made, model, mine, other, its, of_indices, batch)
    before = model.weight.clone()
    with pytest.raises(IndexError):
        made((batch[0], batch[1] + 4))
    assert torch.equal(before, model.weight)


def test_sparse_gradients_are_refused_with_the_line():
    model, batch = nn.Embedding(5, 4, sparse=True), (torch.tensor([0, 1]), torch.tensor([3, 0]))
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_traps.py:\d+: .*makes a sparse tensor.*sparse=False"):
        captured(model, batch, of_indices)


# 4. random numbers


def test_dropout_is_one_unit_that_draws():
    found = check(lambda m, x: F.dropout(x @ m.weight, 0.5))
    unit = unit_of(found, "aten.bernoulli_.float")
    assert [c.name for c in unit.calls] == ["aten.empty_like", "aten.bernoulli_.float", "aten.ne.Scalar"]
    assert unit.random


def test_a_dropouts_mask_is_kept_as_a_byte_an_element():
    """Captured it is a float each."""
    found = check(lambda m, x: F.dropout(x @ m.weight, 0.5))
    mask, = unit_of(found, "aten.bernoulli_.float").makes
    assert found.program.storages[mask].bytes == 16, "4 x 4 elements"
    scaled = unit_of(found, "aten._to_copy")
    assert scaled.reads == [mask] and not scaled.random


def test_ops_that_draw_keep_their_order_and_hand_on_the_stream():
    found = check(lambda m, x: F.dropout(F.dropout(x @ m.weight, 0.5) @ m.weight, 0.3) + torch.rand_like(x))
    drawing = [unit for unit in found.units if unit.random]
    assert len(drawing) == 3
    assert all(a.state_out == b.state_in for a, b in zip(drawing, drawing[1:], strict=False))


def test_attention_without_dropout_does_not_draw():
    flash = aten._scaled_dot_product_flash_attention_for_cpu.default
    assert torch.Tag.nondeterministic_seeded in flash.tags
    assert not calls.draws(flash, (1, 2, 3, 0.0), {}) and calls.draws(flash, (1, 2, 3, 0.1), {})


def test_a_draw_that_runs_again_is_the_same():
    def forward(m, x):
        x = x @ m.weight
        for _ in range(6):
            x = x * torch.rand_like(x)  # the backward pass needs nothing but the draws: whatever kernels take, they run again
        return x

    torch.manual_seed(0)
    model, batch = Net(forward), torch.randn(4096, 4)
    loss_fn = lambda m, x: m(x).square().mean()  # noqa: E731
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    best = lowtide.plan(model, loss_fn, mine, batch).arena_bytes
    made = lowtide.compile_step(model, loss_fn, mine, batch, budget=best * 6 // 10, effort=0.2)
    assert "set_state(s" in made.source, "no draw ran again"
    assert_equal_steps(made, model, mine, other, its, loss_fn, batch)


class Checkpointed(nn.Module):
    """Layers with dropout that run again in the backward pass."""

    def __init__(self, count=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(lambda y, layer=layer: F.dropout(torch.tanh(layer(y)), 0.5), x, use_reentrant=False)
        return x


@pytest.mark.parametrize("budget", [None, "90%"])
def test_a_checkpointed_dropout_draws_the_mask_of_the_forward_pass_again(budget):
    found = check(lambda m, x: m.blocks(x @ m.weight), budget=budget, rows=64, blocks=Checkpointed())
    assert "lowtide.set_random_state" in ops(found)
    assert not [s for s in found.program.storages if s.role == calls.CONSTANT], "the second run reads the parameters"


def test_code_that_sets_the_random_stream_is_part_of_the_step():
    def forward(m, x):
        torch.manual_seed(3)
        with torch.random.fork_rng():
            torch.manual_seed(4)
            x = x * torch.rand_like(x)
        state = torch.get_rng_state()
        y = F.dropout(x @ m.weight, 0.5)
        torch.set_rng_state(state)
        return y + F.dropout(x @ m.weight, 0.5) * torch.rand(())

    check(forward)


def test_a_seed_from_outside_is_refused_with_its_line():
    def forward(m, x):
        torch.seed()
        return F.dropout(x @ m.weight, 0.5)

    with pytest.raises(lowtide.Unsupported, match=r"test_torch_traps.py:\d+: torch.seed\(\).* takes a seed from outside"):
        captured(Net(forward), torch.randn(4, 4), lambda m, x: m(x).sum())


def test_a_generator_that_is_set_past_torchs_functions_is_refused():
    def forward(m, x):
        torch.default_generator.manual_seed(1)
        return F.dropout(x @ m.weight, 0.5)

    net, batch = Net(forward), torch.randn(4, 4)
    before = torch.get_rng_state()
    with pytest.raises(lowtide.Unsupported, match="sets a generator's state past torch.set_rng_state"):
        captured(net, batch, lambda m, x: m(x).sum())
    assert torch.equal(before, torch.get_rng_state())


def test_a_thread_that_draws_while_a_step_is_captured_is_named():
    begun, drawn, asked = threading.Event(), threading.Event(), []

    def draw():
        begun.wait(60)
        torch.rand(3)
        drawn.set()

    def loss_fn(m, x):
        if not asked:  # the other thread draws in the middle of the capture
            asked.append(True)
            begun.set()
            drawn.wait(60)
        return m(x).sum()

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        with pytest.raises(lowtide.Unsupported, match="another thread drew numbers meanwhile: let that begin when the step is compiled"):
            captured(Net(lambda m, x: x @ m.weight), torch.randn(4, 4), loss_fn)
    finally:
        begun.set()
        thread.join()
    found = captured(Net(lambda m, x: x @ m.weight), torch.randn(4, 4), lambda m, x: m(x).sum())  # now that it has ended
    assert "weight" in found.updated


# 5. gradients, ties, equal ops


def test_a_parameter_that_does_not_come_from_the_model_is_refused():
    net = Net(lambda m, x: x @ m.weight)
    weight, row = net.weight, net.weight.detach()[0]
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_traps.py:\d+: .*'weight' comes from elsewhere"):
        captured(net, torch.randn(4, 4), lambda m, x: m(x).sum() + weight.square().sum())
    with pytest.raises(lowtide.Unsupported, match=r"test_torch_traps.py:\d+: .* lies in the memory of 'weight'"):
        captured(net, torch.randn(4, 4), lambda m, x: m(x).sum() + row.sum())


def test_a_detached_parameter_from_elsewhere_is_the_parameter():
    torch.manual_seed(0)
    model, batch, held = Net(lambda m, x: x @ m.weight), torch.randn(4, 4), {}
    loss_fn = lambda m, x: (m(x) * held[m]).square().mean()  # noqa: E731
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    held[model], held[other] = model.weight.detach(), other.weight.detach()
    made = lowtide.compile_step(model, loss_fn, mine, batch)
    assert_equal_steps(made, model, mine, other, its, loss_fn, batch)


def test_convolution_backward_is_split_by_its_mask():
    model, batch, loss_fn = build("resnet")
    found = captured(model, batch, loss_fn)
    masks = [call.args[-1] for unit in found.units for call in unit.calls if call.name == "aten.convolution_backward"]
    assert masks and all(mask[0] + any(mask[1:]) == 1 for mask in masks)


def test_a_gradient_of_an_input_does_not_keep_the_input():
    model, batch, loss_fn = build("unet")
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    made = lowtide.compile_step(model, loss_fn, mine, batch, cache=False)
    found = made._now.planned.captured
    backward = [call for unit in found.units for call in unit.calls if unit.phase == "backward"]
    exchanged = [call for call in backward if call.name == "aten.convolution"]
    assert len(exchanged) > 10 and {call.args[6] for call in exchanged} == {True, False}, "of both directions"
    assert_equal_steps(made, model, mine, other, its, loss_fn, batch, steps=2)


def test_tied_weights_are_one_parameter():
    model, batch, loss_fn = build("gpt2")
    found = captured(model, batch, loss_fn)
    assert "lm_head.weight" not in found.updated and "transformer.wte.weight" in found.updated


def test_equal_ops_become_one():
    found = check(lambda m, x: (x @ m.weight).tanh() + (x @ m.weight).tanh())
    assert ops(found).count("aten.tanh") == 1 and ops(found).count("aten.mm") < 4


def test_equal_ops_on_what_is_written_between_them_stay_two():
    def forward(m, x):
        y = x @ m.weight
        a = y.tanh()
        y.add_(1)
        return a * y.tanh()

    check(forward)


def test_frozen_and_unused_parameters_stay_as_they_are():
    model, batch, loss_fn = build("lora")
    before = {name: p.clone() for name, p in model.named_parameters() if not p.requires_grad}
    made = lowtide.compile_step(model, loss_fn, OPTIMIZERS["adamw"](trained(model)), batch)
    made(batch)
    assert before and all(torch.equal(p, before[n]) for n, p in model.named_parameters() if n in before)


def test_a_gradient_that_lies_otherwise_than_its_parameter_is_made_alike():
    def forward(m, x):
        return (x @ m.weight.t()).sum() + m.weight.t().contiguous().sum()

    check(forward, "adamw")


def test_an_update_takes_one_parameter():
    found = check(lambda m, x: m.norm(x @ m.weight), "adamw", norm=nn.BatchNorm1d(4))
    updates = [unit for unit in found.units if unit.phase == "update"]
    assert [unit.what for unit in updates] == ["weight", "norm.weight", "norm.bias"]
    gradients = [unit.reads[1] for unit in updates]
    assert len(set(gradients)) == 3 and all(len(unit.update_tensors) == 5 for unit in updates)


def test_an_optimizer_for_captured_graphs_is_refused():
    net = Net(lambda m, x: x @ m.weight)
    optimizer = torch.optim.AdamW(trained(net), capturable=True)
    with pytest.raises(lowtide.Unsupported, match="capturable=True is not planned"):
        captured(net, torch.randn(4, 4), lambda m, x: m(x).sum(), optimizer)


def test_an_op_of_the_backward_pass_knows_the_line_of_its_forward_op():
    def forward(m, x):
        y = torch.tanh(x @ m.weight)  # the first line
        return y.sigmoid() * y

    net = Net(forward)
    found = captured(net, torch.randn(4, 4), lambda m, x: m(x).sum())
    backward = {unit.name: unit.place for unit in found.units if unit.phase == "backward"}
    assert "the first line" in backward["tanh_backward"]
    assert "return y.sigmoid() * y" in backward["sigmoid_backward"]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_make_what_their_backward_pass_needs(kind):
    """oneDNN's LSTM gives no workspace where gradients are off, as they are in a planned step."""
    layer = getattr(nn, kind)(4, 4, 2, batch_first=True, bidirectional=True, dropout=0.2)
    check(lambda m, x: m.layer((x @ m.weight).view(2, -1, 4))[0], rows=6, layer=layer)


# 6. what is decided while tracing


def test_our_dispatch_modes_let_dynamo_compile():
    assert known.KnownValues.ignore_compile_internals()


def test_gpt2_takes_the_causal_kernel_of_eager_mode():
    """Traced naively it makes a mask, one for each layer."""
    found = captured(*build("gpt2"))
    attention = [c for u in found.units for c in u.calls if "flash_attention_for_cpu" in c.name and
                 u.phase == "forward"]
    assert len(attention) == 2 and all(c.args[4] is True and "attn_mask" not in c.kwargs for c in attention)
    assert not [c for u in found.units for c in u.calls if c.name.startswith("aten.where")]


def test_attention_with_dropout_is_taken_apart_as_in_eager_mode():
    """The flash kernel has no dropout."""
    found = captured(*build("gpt2", 0.1))
    names = ops(found)
    assert not [name for name in names if "flash_attention" in name]
    assert names.count("aten._safe_softmax") + names.count("aten._softmax") == 2
    assert sum(unit.random for unit in found.units) == 7, "of embedding, attention, two others a layer"


def test_a_mask_of_constants_may_be_looked_into():
    """nn.Transformer asks whether its mask is causal."""
    torch.manual_seed(0)
    model = Translator(0.1, causal=False)
    batch = tuple(torch.randint(0, 50, (2, 6)) for _ in range(3))
    loss_fn = lambda m, b: F.cross_entropy(m(b[0], b[1]).flatten(0, 1), b[2].flatten())  # noqa: E731
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    made = lowtide.compile_step(model, loss_fn, mine, batch)
    assert_equal_steps(made, model, mine, other, its, loss_fn, batch)


def test_grouped_attention_of_transformers_takes_the_kernel_of_eager_mode():
    """Traced naively it repeats heads and makes a mask, and gradients differ in their last bits."""
    model, batch, loss_fn = build("llama")
    found = captured(model, batch, loss_fn)
    call = next(c for u in found.units for c in u.calls if "flash_attention_for_cpu" in c.name)
    heads = [found.program.tensors[t].shape[1] for t in call.tensors()]
    assert heads == [2, 1, 1]


def test_memory_beside_a_tensor_that_two_batch_entries_share():
    torch.manual_seed(0)
    model, x = Net(lambda m, x: x @ m.weight), torch.randn(4, 4)
    batch = {"a": x, "b": x, "c": x[1:3]}
    loss_fn = lambda m, b: (m(b["a"]) * b["b"]).sum() + b["c"].sum() * m.weight.sum()  # noqa: E731
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    made = lowtide.compile_step(model, loss_fn, mine, batch)
    assert_equal_steps(made, model, mine, other, its, loss_fn, batch)


def test_an_undeclared_alias_or_write_of_a_kernel_is_found():
    library = torch.library.Library("lowtide_test", "DEF")  # noqa: TOR901
    library.define("same(Tensor x) -> Tensor")
    library.impl("same", lambda x: x, "CPU")
    library.impl("same", lambda x: torch.empty_like(x), "Meta")
    net = Net(lambda m, x: x @ m.weight.detach() + m.weight)
    loss_fn = lambda m, x: (m(x) * torch.ops.lowtide_test.same(x)).sum()  # noqa: E731
    with pytest.raises(lowtide.Unsupported, match="same.* gives memory that is not its own"):
        lowtide.compile_step(net, loss_fn, torch.optim.SGD(trained(net), lr=0.1), torch.randn(4, 4), cache=False)


def test_a_step_of_an_eager_model_goes_on_in_eager_mode():
    model, batch, loss_fn = build("resnet")
    other, mine, its = twin(model, OPTIMIZERS["sgd"])
    made = lowtide.compile_step(model, loss_fn, mine, batch)
    made(batch)
    eager_step(other, loss_fn, its, batch)
    eager_step(model, loss_fn, mine, batch)
    eager_step(other, loss_fn, its, batch)
    assert differences(model, mine, other, its) == []


assert devices.CPU.state_bytes == torch.get_rng_state().numel()
