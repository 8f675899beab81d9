--@use entry drop quarantine countdown metrics saved
-- Settles an effect: ends one of a transition, or confirms that a draining one has ended. A live
-- effect of a state is refused, because only an outcome ends it. The end of a spawn takes the
-- placeholder out of its countdown.
-- KEYS     record, effects, waits, timers, members, tally, metrics, saved, chain...,
--          message_queues...
-- ARGV     id, suffix, token, parent?, messages*...
-- Returns  {status, suffix of the advance or ''}; status: settled | lost | refused
-- `parent` and its message are given where the effect is a spawn.
local id = plan.id
local suffix = plan.suffix

local entry = read_entry(record, suffix)
if not entry or entry.token ~= plan.token then
  return {'lost', ''}
end
if entry.kind == 'state' and entry.state ~= 'draining' then
  return {'refused', ''}
end

local owner = {id = id, record = record, effects = effects, chain = chain}
drop(owner, suffix, entry, false)
forget_saved(saved, suffix)
count(metrics, 'run', entry.name, entry.state == 'draining' and 'stopped' or 'settled')
if entry.state == 'quarantined' then
  stop_asking(record, waits, timers, id)
end
local advance = ''
if entry.kind == 'spawn' then
  local keys = {record, members, tally}
  local queue, message = message_queues[1], plan.messages[1]
  advance = leave_countdown(plan.parent, keys, effects, '*', '', queue, message)
end
return {'settled', advance}
