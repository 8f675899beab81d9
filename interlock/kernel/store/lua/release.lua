--@use clock entry exclusive budget drop quarantine holds_and_queues metrics
-- Gives an effect back: for another attempt later (counted), or because its holder cannot go on
-- (not counted), which uses up no attempt however often. One that may not start again is lapsed at
-- once. An effect that needs names which another record holds waits for them: it is polled when its
-- turn has come, at the latest after the delay. Where a person has to remove something first, such
-- as changes that are in the way of a merge, the record asks for that until the effect is claimed
-- again. The effect is tried again after the delay, whether the person has answered or not.
-- KEYS     record, effects, waits, timers, holds, hold_queue, metrics, chain...
-- ARGV     id, suffix, token, delay_ms, counted?, names..., asks?, is_last?
-- Returns  {status}: owed | lapsed | gone | lost
-- `counted`: the attempt counts. It needs `names`. `asks`: it asks a person; `is_last`: it was the
-- last attempt.
local member = plan.id .. ':' .. plan.suffix

local entry = read_entry(record, plan.suffix)
if not entry or entry.token ~= plan.token then
  return {'lost'}
end
if entry.state == 'draining' then
  local owner = {id = plan.id, record = record, effects = effects, chain = chain}
  drop(owner, plan.suffix, entry, false)
  count(metrics, 'run', entry.name, 'stopped')
  return {'gone'}
end

count(metrics, 'run', entry.name, plan.counted and 'failed' or 'released')
release_reservation(chain, entry)
local due_at = now_ms + plan.delay_ms
local asked = asks_person(entry)
-- The holder has left the place that exclusive effects share, so it is free at once.
entry.kill_by = now_ms
if entry.no_restart == 1 then
  entry.state = 'lapsed'
  entry.lease_until = now_ms
  due_at = now_ms
else
  if #plan.names > 0 then
    local _, name = other_holder(holds, hold_queue, plan.names, plan.id)
    if name then
      wait_for_name(hold_queue, member, name)
    else
      due_at = now_ms
    end
  end
  if not plan.counted then
    entry.attempts = math.max(entry.attempts - 1, 0) -- a person may have let it begin anew
  end
  if plan.is_last then
    entry.attempts_max = entry.attempts
  end
  entry.state = 'owed'
  entry.token = '-'
  entry.holder = plan.asks and PERSON or '-'
  entry.not_before = #plan.names > 0 and now_ms or due_at
  entry.polls = 0
end
write_entry(record, plan.suffix, entry)
if asked then
  stop_asking(record, waits, timers, plan.id)
end
if asks_person(entry) then
  redis.call('ZADD', waits, 'NX', now, plan.id)
end
wake_siblings(record, effects, plan.id, entry)
-- After its siblings, which it is one of: an effect that waits for a name is not due yet.
if entry.state == 'owed' and redis.call('HGET', record, 'paused') == '1' then
  redis.call('ZREM', effects, member)
else
  redis.call('ZADD', effects, due_at, member)
end
return {entry.state}
