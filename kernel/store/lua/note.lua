--@use clock entry budget ops warrant new_effect timer
-- Writes a line that changes no state: a cost, progress, a refusal, a reminder. Allowed after the end; it never conflicts.
-- KEYS  record, log, ops, ops' times, effects, timers, chain of counters..., queues...
-- ARGV  plan, detail, messages...
-- Returns {word, version, position}
local plan = cjson.decode(ARGV[1])
local stands = redis.call('HMGET', KEYS[1], 'version', 'paused')
if not stands[1] then return {'missing', '0', ''} end
if plan.op ~= '' then
  local known = op_known(KEYS[3], plan.op, plan.digest)
  if known then return {known[1], known[2], ''} end
end
if not warranted(KEYS[1], plan.warrant) then return {'fenced', stands[1], ''} end
local chain = {}
for n = 1, plan.chain do chain[n] = KEYS[6 + n] end
count(chain, plan.deltas)
for _, timer in ipairs(plan.timers) do
  local kept = redis.call('HGET', KEYS[1], 't:' .. timer.name)
  if kept then
    local born = string.match(kept, '^%S+ (%S+)')
    set_timer(KEYS[1], KEYS[6], plan.id, timer.name, timer.ms, born, whole(timer.fired), stands[2] == '1')
  end
end
for n, owed in ipairs(plan.owes) do
  owe(KEYS[1], KEYS[5], plan.id, stands[1] .. '.' .. (n - 1) .. ':' .. plan.nonce, owed, stands[2] == '1', plan.look_ms, KEYS[6 + plan.chain + n], ARGV[2 + n])
end
local position = redis.call('XADD', KEYS[2], stands[1] .. '-*', 'note', plan.kind, 'detail', ARGV[2], 'at', whole(now))
if plan.op ~= '' then op_record(KEYS[3], KEYS[4], plan.op, plan.digest, stands[1], plan.window_ms) end
return {'noted', stands[1], position}
