-- Counts the members of indexes of one partition.
-- KEYS     indexes...
-- ARGV     none
-- Returns  {position in indexes, members, position, members, ...}, without the empty ones
local counted = {}
for position, index in ipairs(indexes) do
  local members = redis.call('ZCARD', index)
  if members > 0 then
    counted[#counted + 1] = position
    counted[#counted + 1] = members
  end
end
return counted
