--@use clock entry
-- Creates an effect that a record owes: its entry, its member of the index, its message to the
-- broker. An effect of a paused record comes into the index and to the broker when it is resumed.
-- owner = {id, record, effects, paused, poll_ms}; poll_ms is the time until it is polled
-- new   = the fields of its entry that are not empty, see entry.lua, and the name of the slots that
-- it needs, if it does, which is field 's:<suffix>' of its record
-- queue, message: both nil where the caller publishes the effect itself, or it is not published
local function create_effect(owner, suffix, new, queue, message)
  new.state = 'owed'
  write_entry(owner.record, suffix, new)
  if new.slots then
    redis.call('HSET', owner.record, 's:' .. suffix, new.slots)
  end
  if owner.paused then
    return
  end
  redis.call('ZADD', owner.effects, now_ms + owner.poll_ms, owner.id .. ':' .. suffix)
  if message then
    redis.call('LPUSH', queue, message)
  end
end
