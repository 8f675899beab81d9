--@use clock slots
-- Takes one of a limited number of slots, or a place in the line for it, first come first. A repeat keeps what it has.
-- KEYS  holders, line
-- ARGV  id, limit (0: none), score in the line
-- Returns {word, id...}: held | full, and whom to ring since they were given a slot
local id = ARGV[1]
if not redis.call('ZSCORE', KEYS[1], id) then redis.call('ZADD', KEYS[2], 'NX', ARGV[3], id) end
hand_out(KEYS[1], KEYS[2], tonumber(ARGV[2]))
local held = redis.call('ZSCORE', KEYS[1], id)
if held then redis.call('ZADD', KEYS[1], now_text, id) end
return {held and 'held' or 'full', unpack(to_ring(KEYS[1]))}
