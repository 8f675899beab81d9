--@use entry budget metrics
-- Reserves amounts for the current holder of an effect, all of them or none, in every record of
-- the chain. They replace what the effect had reserved before. Where only the reservations of
-- others are in the way the holder waits, and keeps nothing meanwhile: two that wait for each
-- other would never go on.
-- KEYS     record, metrics, chain...
-- ARGV     suffix, token, amounts
-- Returns  {status, record of the chain whose cap is in the way, counted from 1, or 0, name of the
--          cap, the cap, what is left of it}; status: reserved | waits | over | lost. `over`: the
--          cap does not allow the amount even if all others give back what they have reserved
-- `amounts` is {name: amount}.

-- Returns the answer for the first cap that an amount is over: with what others have reserved, or
-- even without. Returns nil where the amounts fit.
local function shortage(status, own, with_reserved)
  for n, counters in ipairs(chain) do
    for name, amount in pairs(plan.amounts) do
      local cap, used, residue, reserved = unpack(redis.call(
        'HMGET', counters, 'cap.' .. name, 'tree.' .. name, 'residue.' .. name, 'reserved.' .. name
      ))
      if cap then
        local left = tonumber(cap) - tonumber(used or 0) - tonumber(residue or 0)
        if with_reserved then
          left = left - tonumber(reserved or 0) + (own[name] or 0)
        end
        if amount > left then
          return {status, tostring(n), name, cap, string.format('%.0f', left)}
        end
      end
    end
  end
  return nil
end

local entry = read_entry(record, plan.suffix)
if not entry or entry.token ~= plan.token or entry.state == 'draining' then
  return {'lost', '0', '', '0', '0'}
end
local own = {}
for name, amount in amounts_in(entry.reserved) do
  own[name] = tonumber(amount)
end
local over = shortage('over', own, false)
if over then
  count(metrics, 'over', entry.name)
  return over
end
local waits = shortage('waits', own, true)
release_reservation(chain, entry)
if not waits then
  local reserved = {}
  for name, amount in pairs(plan.amounts) do
    add_to_trees(chain, 'reserved.' .. name, amount)
    reserved[#reserved + 1] = string.format('%s=%.0f', name, amount)
  end
  entry.reserved = #reserved > 0 and table.concat(reserved, ',') or '-'
end
write_entry(record, plan.suffix, entry)
return waits or {'reserved', '0', '', '0', '0'}
