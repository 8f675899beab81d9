--@use clock family_log entry exclusive budget ops warrant new_effect countdown timer revoke transition holds_and_queues grant preconditions
-- Commits one decision, or nothing: op-id, warrant, version, facts are tested first; from the first write on nothing can fail.
-- KEYS  record, log, ops, ops' times, effects, timers, waits, in source, in target, ended index, members begun,
--       chain of counters..., records read..., [parent, parent's members, parent's tally], [holds, line left, line entered, lines], queues...[, chronicle]
-- ARGV  plan, data ('' = as it is), event, messages of owed effects..., message of the parent's advance
-- Returns {word, version, ms, paused, advance}; a refusal's detail stands in the place of advance
local plan = cjson.decode(ARGV[1])
local record, id = KEYS[1], plan.id
local known = op_known(KEYS[3], plan.op, plan.digest)
if known then return {known[1], known[2], known[3], '', ''} end
local stands = redis.call('HMGET', record, 'version', 'paused', 'ended')
if not stands[1] then return {'missing', '0', '0', '', ''} end
if not warranted(record, plan.warrant) then return {'fenced', stands[1], '0', '', ''} end
if stands[1] ~= plan.version then return {'conflict', stands[1], '0', '', ''} end
local place = 11 + plan.chain
local after = place + #plan.facts + (plan.parent and 3 or 0)
local family, queues = {unpack(KEYS, after + 1, after + 4)}, after + (plan.shares and 4 or 0)
local refusal = forbidden(plan, record, place, family[1])
if refusal then return {refusal[1], stands[1], '0', '', refusal[2]} end
place = place + #plan.facts
local at, stays, version = {record = record, effects = KEYS[5], timers = KEYS[6], chain = {}, id = id, fields = redis.call('HKEYS', record), again = {}}, plan.mode == 'internal', whole(tonumber(plan.version) + 1)
for n = 1, plan.chain do at.chain[n] = KEYS[11 + n] end
local asks = turn(at, plan, plan.warrant[1] == 'token' and plan.warrant[2] or '', stands[2] == '1')
local paused = stands[2] == '1' and not plan.ends
if not paused then for _, timer in ipairs(plan.timers) do at.again[timer.name] = true end end
if ARGV[2] ~= '' then redis.call('HSET', record, 'data', ARGV[2]) end
if stays then
  redis.call('HSET', record, 'version', version)
  unquarantine(record, KEYS[7], KEYS[6], id)
else
  end_timers(at, asks, plan.ends)
  redis.call('HSET', record, 'version', version, 'state', plan.state, 'entered', version, 'since', now_text, 'person', plan.waits and '1' or '')
  redis.call('ZREM', KEYS[8], id)
  redis.call('ZADD', KEYS[9], now_text, id)
  if plan.waits or asks then redis.call('ZADD', KEYS[7], now_text, id) else redis.call('ZREM', KEYS[7], id) end
end
for _, timer in ipairs(plan.timers) do set_timer(record, KEYS[6], id, timer.name, timer.ms, version, '0', paused) end
if plan.ends then redis.call('HSET', record, 'ended', '1', 'paused', '') end
if plan.ends and plan.root then redis.call('ZADD', KEYS[10], now_text, id) end
if plan.shares then share(plan.shares, family, record, id) end
local leased = nil
for n, owed in ipairs(plan.owes) do
  if owed.kind == 'spawn' then redis.call('SADD', KEYS[11], '*') end
  local suffix, held = version .. '.' .. (n - 1) .. ':' .. plan.nonce, plan.lease and owed.kind == 'state'
  leased = held and suffix or leased
  owe(record, KEYS[5], id, suffix, owed, paused, plan.look_ms, not held and KEYS[queues + n], ARGV[3 + n])
end
local advance = ''
if plan.parent then
  local parent = plan.parent
  parent.record, parent.effects, parent.members, parent.tally = KEYS[place + 1], KEYS[5], KEYS[place + 2], KEYS[place + 3]
  parent.nonce, parent.look_ms = plan.nonce, plan.look_ms
  parent.queue, parent.message = KEYS[queues + #plan.owes + 1], ARGV[4 + #plan.owes]
  advance = leave(parent, id, plan.state)
end
bound(at.chain[1], plan); count(at.chain, plan.deltas); chronicle(plan, id, version)
redis.call('XADD', KEYS[2], version .. '-0', 'event', ARGV[3], 'at', now_text)
if leased then grant_owed(record, KEYS[2], KEYS[5], id, leased, plan.lease) end
op_record(KEYS[3], KEYS[4], plan.op, plan.digest, version, plan.window_ms)
return {'committed', version, now_text, paused and '1' or '', advance}
