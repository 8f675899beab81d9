--@use clock entry token budget
-- Checks whether an effect still needs the slot that it has: whether it is at work, or may begin to
-- be at once. If not, the answer `free` is final: no claim is granted for the slot that it had, and
-- no lost holder comes back, so the caller may give the slot to another. Slots are in the partition
-- of their name, and no script reads both.
-- KEYS     record, effects, chain of counters
-- ARGV     id, suffix, ms until it is polled where it may begin, '1' if it has had its slot for too
--          long without beginning
-- Returns  {status, priority}: work | due | free
local record = KEYS[1]
local effects = KEYS[2]
local chain = {unpack(KEYS, 3)}
local id = ARGV[1]
local suffix = ARGV[2]
local poll_ms = tonumber(ARGV[3])
local too_long = ARGV[4] == '1'

local entry = read_entry(record, suffix)
if not entry then
  return {'free', '0'}
end
-- What may not start again is at work until its record says what follows.
local stopped = now_ms >= entry.kill_by and entry.no_restart == 0
local lapsed = entry.state == 'lapsed' or entry.state == 'draining'
if entry.state == 'leased' or lapsed and not stopped then
  return {'work', '0'}
end
local paused, priority = unpack(redis.call('HMGET', record, 'paused', 'priority'))
local may_begin = (entry.state == 'owed' or entry.state == 'lapsed')
  and paused ~= '1'
  and now_ms >= entry.not_before
  and entry.attempts < entry.attempts_max
if may_begin and not too_long then
  redis.call('ZADD', effects, now_ms + poll_ms, id .. ':' .. suffix)
  return {'due', priority}
end
next_token(record)
if entry.state == 'lapsed' or entry.state == 'quarantined' then
  book_residue(record, chain, entry)
  entry.token = '-'
  entry.state = entry.state == 'lapsed' and 'owed' or entry.state
  write_entry(record, suffix, entry)
end
return {'free', '0'}
