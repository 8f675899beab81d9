--@use clock entry grant
-- Hands a lease over to another process, such as a keeper: a new token, no new attempt. The giver is fenced from then on; a repeat gets the same token.
-- KEYS  record, log, effects, waits, timers, counters
-- ARGV  id, suffix, the giver's token, nonce, holder, lease ms
-- Returns {word, token, attempt, {record}, {counters}}: adopted | lost
local record, suffix, entry = KEYS[1], ARGV[2], entry_read(KEYS[1], ARGV[2])
local lost = {'lost', '', '0', {}, {}}
if not entry or entry.state == 'owed' or entry.state == 'draining' then return lost end
local mine = string.match(entry.token, '^%d+%-(.*)$') == ARGV[4]
if not mine then
  if entry.token ~= ARGV[3] then return lost end
  local stands = redis.call('HMGET', record, 'last', 'version')
  local number = math.max(tonumber(stands[1]) + 1, now_us)
  entry.token = whole(number) .. '-' .. ARGV[4]
  redis.call('HSET', record, 'last', whole(number))
  redis.call('XADD', KEYS[2], stands[2] .. '-*', 'note', 'adopt', 'detail',
    '{"effect":"' .. suffix .. '","token":"' .. entry.token .. '","holder":"' .. ARGV[5] .. '"}', 'at', now_text)
end
local was = entry.state
lease(record, KEYS[3], ARGV[1], suffix, entry, ARGV[5], tonumber(ARGV[6]))
if was == 'quarantined' then unquarantine(record, KEYS[4], KEYS[5], ARGV[1]) end
return {'adopted', entry.token, whole(entry.attempts), redis.call('HGETALL', record), redis.call('HGETALL', KEYS[6])}
