-- Counts the members of indexes of one partition.
-- KEYS     sorted sets
-- ARGV     none
-- Returns  {position in KEYS, members, position, members, ...}, without the empty ones
local counted = {}
for position, index in ipairs(KEYS) do
  local members = redis.call('ZCARD', index)
  if members > 0 then
    counted[#counted + 1] = position
    counted[#counted + 1] = members
  end
end
return counted
