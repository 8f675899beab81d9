--@use entry budget metrics
-- Reserves what a call may cost in every record of the chain, for the current holder of an effect.
-- A repeat replaces the reservation of that effect.
-- KEYS     record, metrics, chain of counters
-- ARGV     suffix, token, estimated cost in micro-dollars
-- Returns  {status, which record of the chain cannot afford it, counted from 1, or 0}; status:
--          reserved | over | lost
local record = KEYS[1]
local metrics = KEYS[2]
local chain = {unpack(KEYS, 3)}
local suffix = ARGV[1]
local token = ARGV[2]
local cost = tonumber(ARGV[3])

-- Returns which record of the chain cannot afford a cost, counted from 1, or 0 where all can.
local function first_over_cap(chain, cost)
  for n, counters in ipairs(chain) do
    local cap, spent, reserved, residue = unpack(
      redis.call('HMGET', counters, 'cap', 'tree.spent', 'tree.reserved', 'tree.residue')
    )
    if cap then
      local used = tonumber(spent or 0) + tonumber(reserved or 0) + tonumber(residue or 0)
      if used + cost > tonumber(cap) then
        return n
      end
    end
  end
  return 0
end

local entry = read_entry(record, suffix)
if not entry or entry.token ~= token or entry.state == 'draining' then
  return {'lost', '0'}
end
release_reservation(chain, entry, false)
local over = first_over_cap(chain, cost)
if over == 0 then
  entry.reserved = cost
  add_to_trees(chain, 'reserved', cost)
else
  count(metrics, 'over', entry.name)
end
write_entry(record, suffix, entry)
return {over == 0 and 'reserved' or 'over', tostring(over)}
