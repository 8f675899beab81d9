-- Writes the commits of a family into its family log again, at the positions that they had. Commits
-- that are in it already are left out.
-- KEYS     family_log, holds
-- ARGV     name, holder, commits*...
-- Returns  {status}: restored | closed
-- Each commit is three values: its position, its record and its version.
if redis.call('HGET', holds, plan.name) ~= plan.holder then
  return {'closed'}
end

local function parts_of(position)
  local ms, number = string.match(position, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(number)
end

local newest = redis.call('XREVRANGE', family_log, '+', '-', 'COUNT', 1)[1]
local last_ms, last_number = parts_of(newest and newest[1] or '0-0')
for n = 1, #plan.commits, 3 do
  local position, id, version = unpack(plan.commits, n, n + 2)
  local ms, number = parts_of(position)
  if ms > last_ms or ms == last_ms and number > last_number then
    redis.call('XADD', family_log, position, 'record', id, 'version', version)
    last_ms, last_number = ms, number
  end
end
return {'restored'}
