--@use clock entry poll
-- Polls due effects of a partition, and moves the score of each in the same step: two sweeps at a
-- time then do not both act on it, and an effect that stays due does not hold up the others.
-- KEYS     effects, waits, timers, metrics, records..., logs..., chains...
-- ARGV     polls..., poll_ms, remind_ms, losses_max, gate_open?, server
-- Returns  {status, detail, ...}, two values an effect; status: publish (detail: name, machine,
--          priority, since) | crash (token) | exhausted (attempts) | quarantined | later | gone |
--          taken, by another sweep
-- Each poll is {id, suffix, jitter, chain_length}, in the order of records, logs and chains, which
-- are counters in a row. `server` is the run id of the server that the gate was asked for, or ''.

-- The gate was asked for one life of the server. In another it is closed until it is asked again.
local gate_open = plan.gate_open
if gate_open and plan.server ~= '' then
  gate_open = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') == plan.server
end
local sweep = {
  waits = waits,
  timers = timers,
  metrics = metrics,
  gate_open = gate_open,
  poll_ms = plan.poll_ms,
  remind_ms = plan.remind_ms,
  losses_max = plan.losses_max,
}

local function poll_effect(poll)
  local score = redis.call('ZSCORE', effects, poll.member)
  if not score or tonumber(score) > now_ms then
    return 'taken', ''
  end
  local entry = read_entry(poll.record, poll.suffix)
  if not entry then
    redis.call('ZREM', effects, poll.member)
    return 'gone', ''
  end
  return POLLS[entry.state](sweep, poll, entry)
end

local answers = {}
local next_chain = 1
for n, planned in ipairs(plan.polls) do
  local chain
  chain, next_chain = list_at(chains, next_chain, planned.chain_length)
  answers[2 * n - 1], answers[2 * n] = poll_effect({
    id = planned.id,
    suffix = planned.suffix,
    member = planned.id .. ':' .. planned.suffix,
    record = records[n],
    log = logs[n],
    chain = chain,
    effects = effects,
    jitter = planned.jitter,
  })
end
return answers
