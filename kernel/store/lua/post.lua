--@use clock entry new_effect ops
-- Puts a message into a record's inbox, and owes its draining unless that is owed and unclaimed already. Nothing is posted to what has ended.
-- KEYS  record, log, posts, posts' times, effects, inbox, queue
-- ARGV  plan, mail, note, message
-- Returns {word, the mail's id or what is in the way, owed}
local plan = cjson.decode(ARGV[1])
local stands = redis.call('HMGET', KEYS[1], 'version', 'paused', 'ended', 'state')
if not stands[1] then return {'missing', '', ''} end
local known = op_known(KEYS[3], plan.op, plan.digest)
if known then return {known[1], known[2], ''} end
if stands[3] == '1' then return {'ended', stands[4], ''} end
if redis.call('XLEN', KEYS[6]) >= plan.most then
  redis.call('XTRIM', KEYS[6], 'MINID', plan.read)
  local left = redis.call('XLEN', KEYS[6])
  if left >= plan.most then return {'full', whole(left), ''} end
end
local waiting = false
for _, suffix in ipairs(entries_of(KEYS[1])) do
  local entry = entry_read(KEYS[1], suffix)
  waiting = waiting or entry.name == plan.owed.name and entry.state == 'owed' and entry.not_before <= now
end
local mail = redis.call('XADD', KEYS[6], '*', 'mail', ARGV[2])
redis.call('XADD', KEYS[2], stands[1] .. '-*', 'note', 'mail', 'detail', ARGV[3], 'at', now_text)
if not waiting then
  owe(KEYS[1], KEYS[5], plan.id, stands[1] .. '.0:' .. plan.nonce, plan.owed, stands[2] == '1', plan.look_ms, KEYS[7], ARGV[4])
end
op_record(KEYS[3], KEYS[4], plan.op, plan.digest, mail, plan.window_ms)
return {'posted', mail, waiting and '' or '1'}
