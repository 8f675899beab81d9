--@use clock entry token budget
-- Checks whether an effect still needs the slot that it has: whether it is at work, or may begin to
-- be at once. If not, the answer `free` is final: no claim is granted for the slot that it had, and
-- no lost holder comes back, so the caller may give the slot to another. Slots are in the partition
-- of their name, and no script reads both.
-- KEYS     record, effects, chain...
-- ARGV     id, suffix, poll_ms, too_long?, slots
-- Returns  {status, priority}: work | due | free
-- `poll_ms`: after it the effect is polled, where it may begin. `too_long`: it has had its slot for
-- too long without beginning. `slots` is the name of the slots.
local entry = read_entry(record, plan.suffix)
if not entry then
  return {'free', '0'}
end
-- What may not start again is at work until its record says what follows.
local stopped = now_ms >= entry.kill_by and entry.no_restart == 0
local lapsed = entry.state == 'lapsed' or entry.state == 'draining'
if entry.state == 'leased' or lapsed and not stopped then
  return {'work', '0'}
end
local paused, priority, needed = unpack(
  redis.call('HMGET', record, 'paused', 'priority', 's:' .. plan.suffix)
)
if needed ~= plan.slots then -- its table has another name for it by now, or none
  return {'free', '0'}
end
local may_begin = (entry.state == 'owed' or entry.state == 'lapsed')
  and paused ~= '1'
  and now_ms >= entry.not_before
  and entry.attempts < entry.attempts_max
if may_begin and not plan.too_long then
  redis.call('ZADD', effects, now_ms + plan.poll_ms, plan.id .. ':' .. plan.suffix)
  return {'due', priority}
end
next_token(record)
if entry.state == 'lapsed' or entry.state == 'quarantined' then
  book_residue(record, chain, entry)
  entry.token = '-'
  entry.state = entry.state == 'lapsed' and 'owed' or entry.state
  write_entry(record, plan.suffix, entry)
end
return {'free', '0'}
