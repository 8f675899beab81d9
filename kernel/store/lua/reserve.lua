--@use clock entry budget
-- Reserves what a call may cost in every record of the chain, for the current holder of an effect. A repeat replaces its own reservation.
-- KEYS  record, chain of counters...
-- ARGV  suffix, token, estimate in micro-dollars
-- Returns {word, place of the cap in the chain}
local entry, chain = entry_read(KEYS[1], ARGV[1]), {}
if not entry or entry.token ~= ARGV[2] or entry.state == 'draining' then return {'lost', '0'} end
for n = 2, #KEYS do chain[n - 1] = KEYS[n] end
unreserve(chain, entry, false)
local estimate = tonumber(ARGV[3])
local over = within(chain, estimate)
if over == 0 then
  entry.reserved = estimate
  tree_add(chain, 'reserved', estimate)
end
entry_write(KEYS[1], ARGV[1], entry)
return {over == 0 and 'reserved' or 'over', whole(over)}
