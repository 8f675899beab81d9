--@use clock entry ops
-- A person lets every quarantined effect of a record try again, with fresh attempts; old tokens stay good until somebody claims.
-- KEYS  record, log, ops, ops' times, effects, timers, waits
-- ARGV  id, op-id, digest, detail, window ms
-- Returns {word, suffix, name, ...}
local record, id = KEYS[1], ARGV[1]
local stands = redis.call('HMGET', record, 'version')
if not stands[1] then return {'missing'} end
local known = op_known(KEYS[3], ARGV[2], ARGV[3])
if known then return {known[1]} end
local answer = {'retried'}
for _, suffix in ipairs(entries_of(record)) do
  local entry = entry_read(record, suffix)
  if entry.state == 'quarantined' then
    entry.state, entry.attempts, entry.looks, entry.not_before = 'lapsed', 0, 0, 0
    entry_write(record, suffix, entry)
    redis.call('ZADD', KEYS[5], whole(now), id .. ':' .. suffix)
    answer[#answer + 1], answer[#answer + 2] = suffix, entry.name
  end
end
if #answer == 1 then return {'nothing'} end
unquarantine(record, KEYS[7], KEYS[6], id)
redis.call('XADD', KEYS[2], stands[1] .. '-*', 'note', 'retry', 'detail', ARGV[4], 'at', whole(now))
op_record(KEYS[3], KEYS[4], ARGV[2], ARGV[3], stands[1], tonumber(ARGV[5]))
return answer
