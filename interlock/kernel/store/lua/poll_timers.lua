--@use clock timer
-- Polls due timers of a partition, and moves the score of each in the same step, so that two sweeps
-- at a time do not both fire it. Whether a timer is due, its record says; the score is only a hint.
-- KEYS     timers, records...
-- ARGV     polls..., poll_ms
-- Returns  {status, due at, version, fired, ...}, four values a timer; status: due | later | gone |
--          taken, by another sweep
-- Each poll is {id, name, jitter}, in the order of the records.
local POLL_MS_MAX = 900000

-- Returns the status of a timer.
local function poll_timer(poll, due_at, left)
  local member = poll.id .. ':' .. poll.name
  local score = redis.call('ZSCORE', timers, member)
  if not score or tonumber(score) > now_ms then
    return 'taken'
  end
  if left ~= '-' then -- it is paused, or there is none
    redis.call('ZREM', timers, member)
    return 'gone'
  end
  if tonumber(due_at) > now_ms then
    redis.call('ZADD', timers, due_at, member)
    return 'later'
  end
  -- The longer a timer is overdue, the longer until the next poll.
  local overdue_ms = math.max(now_ms - tonumber(due_at), plan.poll_ms)
  local delay_ms = math.min(overdue_ms, POLL_MS_MAX) * poll.jitter
  redis.call('ZADD', timers, math.floor(now_ms + delay_ms), member)
  return 'due'
end

local answers = {}
for n, poll in ipairs(plan.polls) do
  local due_at, version, left, fired = read_timer(records[n], poll.name)
  local first = 4 * (n - 1) + 1
  answers[first] = poll_timer(poll, due_at, left)
  answers[first + 1] = due_at or '0'
  answers[first + 2] = version or '0'
  answers[first + 3] = fired or '0'
end
return answers
