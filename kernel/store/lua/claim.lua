--@use clock entry exclusive budget grant
-- Gives an effect to one holder, with a new token, and hands over the record. A repeat with the same nonce gets its own lease back, renewed.
-- KEYS  record, log, effects, waits, timers, chain of counters...
-- ARGV  id, suffix, nonce, holder, lease ms, schema known, the effect's name as the message has it
-- Returns {word, token, lease until, attempt, {record}, {counters}}
local record, suffix, nonce = KEYS[1], ARGV[2], ARGV[3]
local function answer(word, detail) return {word, detail or '', '0', '0', {}, {}} end
local entry = entry_read(record, suffix)
if not entry or entry.state == 'draining' then return answer('gone') end
if entry.name ~= ARGV[7] then return answer('other', entry.name) end
local lease_ms, chain = tonumber(ARGV[5]), {}
for n = 6, #KEYS do chain[n - 5] = KEYS[n] end
local mine = entry.token ~= '' and string.match(entry.token, '^%d+%-(.*)$') == nonce and entry.state ~= 'owed'
if not mine then
  local stands = redis.call('HMGET', record, 'paused', 'schema')
  if entry.state == 'quarantined' then return answer('quarantined') end
  if stands[1] == '1' then return answer('paused') end
  if entry.state == 'leased' then return answer('held', entry.holder) end
  if entry.carried == 1 then return answer('carried') end
  if entry.attempts >= entry.attempts_max then return answer('exhausted') end
  if now < entry.not_before then return answer('early', whole(entry.not_before)) end
  local taken = entry.exclusive == 1 and taken_until(record, suffix, entry)
  if taken then return answer('busy', whole(taken)) end
  if tonumber(stands[2]) > tonumber(ARGV[6]) then return answer('newer', stands[2]) end
  unreserve(chain, entry, true)
  grant(record, KEYS[2], suffix, entry, nonce, ARGV[4])
end
local was = entry.state
lease(record, KEYS[3], ARGV[1], suffix, entry, ARGV[4], lease_ms)
if was == 'quarantined' then unquarantine(record, KEYS[4], KEYS[5], ARGV[1]) end
return {'granted', entry.token, whole(entry.lease_until), whole(entry.attempts), redis.call('HGETALL', record), redis.call('HGETALL', KEYS[6])}
