--@use clock entry exclusive budget new_effect countdown
-- Ends a draining entry ("confirmed gone") or a transition's effect. A live state effect ends by an outcome only.
-- KEYS  record, effects, waits, timers, counted members, counted tally, chain of counters..., queue of the advance
-- ARGV  plan, message of the advance
-- Returns {word, advance}
local plan = cjson.decode(ARGV[1])
local entry = entry_read(KEYS[1], plan.suffix)
if not entry or entry.token ~= plan.token then return {'lost', ''} end
if entry.kind == 'state' and entry.state ~= 'draining' then return {'refused', ''} end
local chain = {}
for n = 1, plan.chain do chain[n] = KEYS[6 + n] end
unreserve(chain, entry, false)
redis.call('HDEL', KEYS[1], 'e:' .. plan.suffix)
redis.call('ZREM', KEYS[2], plan.id .. ':' .. plan.suffix)
wake_siblings(KEYS[1], KEYS[2], plan.id, entry)
if entry.state == 'quarantined' then unquarantine(KEYS[1], KEYS[3], KEYS[4], plan.id) end
local advance = ''
if entry.kind == 'spawn' then
  local parent = plan.parent
  parent.record, parent.effects, parent.members, parent.tally = KEYS[1], KEYS[2], KEYS[5], KEYS[6]
  parent.nonce, parent.look_ms, parent.queue, parent.message = plan.nonce, plan.look_ms, KEYS[7 + plan.chain], ARGV[2]
  advance = leave(parent, '*', '')
end
return {'settled', advance}
