--@use clock entry
-- Exclusive effects of a record share a place, such as a worktree: one may be granted only when
-- every former holder has surely left it.

-- Returns until when the place is occupied for an effect, or nil where it is free. Another effect
-- that is leased occupies it. One that is lapsed or draining does so until its kill_by, because its
-- holder may still be at work; so does the effect itself, whose entry the caller has read.
local function occupied_until(record, suffix, entry)
  local latest = nil
  for _, other in ipairs(entry_suffixes(record)) do
    local found = other == suffix and entry or read_entry(record, other)
    local occupies = found.state == 'leased' and other ~= suffix
    if found.state == 'lapsed' or found.state == 'draining' then
      occupies = now_ms < found.kill_by
    end
    if found.exclusive == 1 and occupies then
      latest = math.max(latest or 0, found.kill_by)
    end
  end
  return latest
end

-- Makes the exclusive effects that wait for the place due, now that `freed` has left it.
local function wake_siblings(record, effects, id, freed)
  if freed.exclusive ~= 1 or redis.call('HGET', record, 'paused') == '1' then
    return
  end
  for _, suffix in ipairs(entry_suffixes(record)) do
    local entry = read_entry(record, suffix)
    if entry.exclusive == 1 and (entry.state == 'owed' or entry.state == 'lapsed') then
      redis.call('ZADD', effects, math.max(now_ms, entry.not_before), id .. ':' .. suffix)
    end
  end
end
