--@use clock family_log entry budget new_effect ops timer holds_and_queues grant
-- Bears a record: its first event, its effects and timers, its place under its parent. A repeat changes nothing.
-- KEYS  record, counters, log, tombstone, effects, timers, waits, in state[, parent, parent's members, parent's kids][, holds, line left, line entered, lines], queues...[, who must be above][, chronicle]
-- ARGV  plan, data, event, messages...
-- Returns {word, version, ms}; held says by whom in the place of the version
local plan = cjson.decode(ARGV[1])
local kept = redis.call('HGET', KEYS[1], 'birth')
if kept then return {kept == plan.digest and 'replayed' or 'taken', redis.call('HGET', KEYS[1], 'version'), '0'} end
local tombstone = redis.call('GET', KEYS[4])
if tombstone then return {tombstone == plan.digest and 'pruned' or 'taken', '0', '0'} end
local shared = plan.parent and 12 or 9
local queues = shared + (plan.shares and 4 or 0)
if plan.parent then
  local parent = redis.call('HMGET', KEYS[9], 'ended', 'state')
  if parent[1] == '1' or not parent[2] then return {'closed', '0', '0'} end
  if redis.call('SISMEMBER', KEYS[10], '*') == 0 then return {'closed', '0', '0'} end
end
if plan.within then
  local above = redis.call('HMGET', KEYS[#KEYS - (plan.chronicle and 1 or 0)], 'ended', 'state')
  if above[1] == '1' or not above[2] then return {'closed', '0', '0'} end
end
local other = plan.shares and held_by_another(KEYS[shared], plan.shares.takes, plan.id)
if other then return {'held', other, '0'} end
if plan.parent then
  redis.call('SADD', KEYS[10], plan.id)
  redis.call('SADD', KEYS[11], plan.id)
end
redis.call('HSET', KEYS[1], 'machine', plan.machine, 'state', plan.state, 'version', '1', 'entered', '1', 'schema', plan.schema, 'since', now_text,
  'created', now_text, 'priority', plan.priority, 'birth', plan.digest, 'last', '0', 'counted', plan.parent or '', 'person', plan.waits and '1' or '', 'data', ARGV[2])
bound(KEYS[2], plan); chronicle(plan, plan.id, '1')
redis.call('XADD', KEYS[3], '1-0', 'event', ARGV[3], 'at', now_text)
redis.call('ZADD', KEYS[8], now_text, plan.id)
if plan.waits then redis.call('ZADD', KEYS[7], now_text, plan.id) end
for _, timer in ipairs(plan.timers) do set_timer(KEYS[1], KEYS[6], plan.id, timer.name, timer.ms, '1', '0', false) end
if plan.shares then share(plan.shares, {unpack(KEYS, shared, shared + 3)}, KEYS[1], plan.id) end
for at, owed in ipairs(plan.owes) do
  local suffix, held = '1.' .. (at - 1) .. ':' .. plan.nonce, plan.lease and owed.kind == 'state'
  owe(KEYS[1], KEYS[5], plan.id, suffix, owed, false, plan.look_ms, not held and KEYS[queues + at - 1], ARGV[3 + at])
  if held then grant_owed(KEYS[1], KEYS[3], KEYS[5], plan.id, suffix, plan.lease) end
end
return {'created', '1', now_text}
