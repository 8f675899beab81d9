--@use clock
-- Announces an effect that a record owes newly: to the sweeps by its member of the index, to the
-- workers by its message. That of a paused record is announced when the record is resumed.
-- owner = {id, effects, paused, poll_ms, ...}; poll_ms is the time until it is polled
-- queue, message: both nil where the caller publishes the effect itself, or it is not published
local function announce_effect(owner, suffix, queue, message)
  if owner.paused then
    return
  end
  local polled_at = string.format('%d', now_ms + owner.poll_ms)
  redis.call('ZADD', owner.effects, polled_at, owner.id .. ':' .. suffix)
  if message then
    redis.call('LPUSH', queue, message)
  end
end

-- Creates an effect that a record owes: `line` is its entry.
local function create_effect(owner, suffix, line, queue, message)
  redis.call('HSET', owner.record, 'e:' .. suffix, line)
  announce_effect(owner, suffix, queue, message)
end
