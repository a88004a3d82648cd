"""The PyTorch front end: a captured training step, planned by the library, run by PyTorch's own kernels.

    devices.py      the CPU or a GPU: what differs between them
    batches.py      a batch as tensors, and what else a plan holds for
    known.py        values that are known while a step is traced
    decisions.py    checks and branches on contents, while a step is traced
    foretold.py     branches whose answer is known before the step
    reachable.py    all objects that can be reached from model, loss_fn and optimizer
    untouched.py    these noted before a step is captured, compared and put back after
    externals.py    tensors beside model and batch: nodes of the graph, found again in each step
    exchange.py     a model whose tensors are others for a while
    step_numbers.py numbers that only a step knows, while Python holds them
    beside_loss.py  what loss_fn gives beside the loss, taken apart and put together
    carried.py      what the forward pass keeps in attributes, written behind each step
    guards.py       Python's values that a plan holds for, compared in each step; held_whole.py: those that are one, as an order
    made_names.py   names of such values that the code makes while it runs
    opened.py       files, processes and connections, which a step would use once
    frozen.py       Python's random numbers, which a step may not draw
    trace.py        the step as one FX graph (make_fx): forward, loss, gradients
    accumulated.py  gradients as backward() accumulates them, within backward passes too
    made_graph.py   make_fx without what no graph of a step needs
    dynamo.py       a second way to trace: what looks into tensors
    ways_round.py   what refusals say to write instead
    calls.py        the graph as calls on tensors that lie in storages: aliases and mutations as they are
    op_traits.py    what that asks of each op
    parts.py        the calls around the largest values, by rows
    rows.py         which row of the op table a call is
    axes.py         of calls that no row is, the axes that their loops walk
    row_graph.py    the step as a graph of such rows, and the library's answer in parts
    norms.py        batch norm in passes, whose sums add up
    means.py        means as sums, of which parts can be added
    samples.py      the step in parts along its samples, by the planner's fission
    ctc.py          the CTC loss with room for targets of any length
    counted_norms.py  batch norms over all batches so far, which read their count
    units.py        calls grouped into what is planned as one op; updates of the optimizer added
    masks.py        dropout's masks as a byte an element
    convolutions.py gradients of inputs that do not read the input
    layouts.py      where kernels put results otherwise than fake kernels say
    optimizers.py   one update per parameter, bit for bit as SGD's, Adam's and AdamW's own step
    own_step.py     the same by the step() of any other optimizer; rehearsal.py tries whether that can be
    ranks.py        one plan on many ranks
    meetings.py     ranks that compile the same graph; shards.py says which share a block's parameters
    measure.py      seconds and allocations of every unit, each kind once
    true_operands.py  what the step makes itself, for kinds that look at their operands
    again.py        lowtide.measure: kernels timed again, for the plans that come
    graph_text.py   units as the text form of a graph, which the library plans
    program.py      a plan as generated Python
    first_run.py    the first run of a plan against what it was made for
    beside_eager.py a rehearsal: the planned step beside eager mode; room.py: whether there is memory for it; fewer_rows.py: else
    rehearsed_step.py  what a rehearsal has to know of a step, and how it runs one
    contents.py     what a step may write, kept and put back
    compared.py     what both leave, bit for bit or within a tolerance
    bug_reports.py  a folder for the report of what differs
    transfers.py    what a plan stores and loads, copied while kernels run
    addresses.py    every allocation of a step at its planned address (cpu_allocator.cpp, cuda_allocator.cpp)
    wrappers.py     optimizers of accelerate and Lightning, and what they wrap
    options.py      what compile_step and plan take
    planning.py     all of the above in order, to a plan
    entering.py     who may run a step, and when: threads, signal handlers
    step.py         the torch engine: the plan as a step
    exported.py     the forward pass as an exported program, without its weights
    native.py       the native engine: Lowtide's own kernels on PyTorch's tensors
    engines.py      compile_step and plan: which engine
    backend.py      torch.compile(backend="lowtide")
"""
