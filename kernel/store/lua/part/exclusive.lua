-- Exclusive effects of a record share a place, such as a worktree: nobody enters before the last one is surely out.
-- Says until when the place is taken, or nil: by a holder as long as it holds, by one that was lost or revoked until its kill_by.
local function taken_until(record, suffix, own)
  local latest = nil
  for _, other in ipairs(entries_of(record)) do
    local entry = other == suffix and own or entry_read(record, other)
    local there = entry.state == 'leased' and other ~= suffix
    if entry.state == 'lapsed' or entry.state == 'draining' then there = now < entry.kill_by end
    if entry.exclusive == 1 and there then latest = math.max(latest or 0, entry.kill_by) end
  end
  return latest
end

-- The place is free: who is owed it is looked at now.
local function wake_siblings(record, effects, id, gone)
  if gone.exclusive ~= 1 or redis.call('HGET', record, 'paused') == '1' then return end
  for _, other in ipairs(entries_of(record)) do
    local entry = entry_read(record, other)
    if entry.exclusive == 1 and (entry.state == 'owed' or entry.state == 'lapsed') then
      redis.call('ZADD', effects, whole(math.max(now, entry.not_before)), id .. ':' .. other)
    end
  end
end
