package pyimport

func init() {
	functions("asyncio asyncio.runners", map[string]func(*Run, *args) value{"run": runMain})
	// The evaluator has no loop that runs, on which these depend.
	later := map[string]func(*Run, *args) value{}
	for _, name := range []string{
		"get_running_loop", "_get_running_loop", "get_event_loop", "create_task", "ensure_future", "current_task", "all_tasks",
		"gather", "wait", "wait_for", "shield", "sleep", "as_completed", "timeout", "timeout_at",
	} {
		later[name] = notKnown(name)
	}
	functions("asyncio asyncio.events asyncio.tasks asyncio.timeouts", later)
}

// coroutine is the result of a call of an async function. It runs where the program awaits it,
// and where an event loop runs it to its end (asyncio.run, loop.run_until_complete). One that a
// program hands to a task is not followed: it runs later.
type coroutine struct {
	of   *function
	args *args
	self value
	done bool
}

func (*coroutine) typeName() string { return aCoroutine }

func (*coroutine) attr(_ *Run, name string) (value, bool) {
	return unknownf("%s of a coroutine", name), true
}

// run runs a coroutine to its end.
func (c *coroutine) run(r *Run) value {
	if c.done {
		return unknownf("the result of %s, which was awaited before", c.of.name)
	}
	c.done = true
	body := *c.of
	body.lazy = ""
	return r.callFunction(&body, c.args, c.self)
}

// coroutineIn returns the coroutine that is the first argument, or nil.
func coroutineIn(a *args) *coroutine {
	if len(a.pos) == 0 {
		return nil
	}
	c, _ := a.pos[0].(*coroutine)
	return c
}

// runMain is asyncio.run.
func runMain(r *Run, a *args) value {
	if c := coroutineIn(a); c != nil {
		return c.run(r)
	}
	return unknownf("the result of a coroutine")
}
