-- A limited number of slots, and the line of those who wait for one. A holder's score says since when it has its slot (ms);
-- below 0 it was given one, and rung, that long ago, and has not taken it up; 0: it was not rung yet.
-- No longer than the grace of the exclusive effects that ring: who follows a lost one finds its bell unheard, and rings again.
local UNHEARD_MS = 10000

local function hand_out(holders, line, limit)
  while limit == 0 or redis.call('ZCARD', holders) < limit do
    local first = redis.call('ZPOPMIN', line)
    if #first == 0 then return end
    redis.call('ZADD', holders, '0', first[1])
  end
end

-- Whom to ring: who was given a slot now, or long ago without taking it up.
local function to_ring(holders)
  local found = redis.call('ZRANGE', holders, whole(UNHEARD_MS - now), '0', 'BYSCORE', 'LIMIT', 0, 100)
  for _, id in ipairs(found) do redis.call('ZADD', holders, whole(-now), id) end
  return found
end
