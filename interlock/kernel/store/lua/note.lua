--@use ops warrant deltas spender timer new_effects record_note metrics
-- Writes a note, which changes no state: a cost, progress, a refusal, a reminder. It may be written
-- after the end of the record, and it never conflicts with a commit.
-- KEYS     record, log, ops, op_times, effects, timers, metrics, chain..., message_queues...
-- ARGV     id, machine, op_id, digest, warrant..., kind, nonce, detail*, deltas, timers...,
--          effects..., spender?, poll_ms, window_ms, messages*...
-- Returns  {status, version, position}; status: noted | replayed | reused | missing | fenced
local id = plan.id

local version, paused = unpack(redis.call('HMGET', record, 'version', 'paused'))
if not version then
  return {'missing', '0', ''}
end
paused = paused == '1'
local known, known_version = known_outcome(ops, plan.op_id, plan.digest)
if known then
  return {known, known_version, ''}
end
if not is_warranted(record, plan.warrant) then
  return {'fenced', version, ''}
end

add_deltas(chain, plan.deltas)
if plan.spender then
  settle_spender(record, chain, plan.spender, plan.deltas)
end
add_to_sums(metrics, plan.machine, plan.deltas)
for _, timer in ipairs(plan.timers) do
  local _, timer_version = read_timer(record, timer.name)
  if timer_version then
    local name, delay_ms, fired = timer.name, timer.delay_ms, timer.fired
    set_timer(record, timers, id, name, delay_ms, timer_version, fired, paused)
  end
end
local owner = {id = id, fields = {}, effects = effects, paused = paused, poll_ms = plan.poll_ms}
create_effects(owner, plan, version, message_queues, plan.messages)
if #owner.fields > 0 then
  redis.call('HSET', record, unpack(owner.fields))
end
local position = write_note(log, version, plan.kind, plan.detail)
if plan.op_id ~= '' then
  record_outcome(ops, op_times, plan.op_id, plan.digest, version, plan.window_ms)
end
return {'noted', version, position}
