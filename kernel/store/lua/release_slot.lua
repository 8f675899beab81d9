--@use clock slots
-- Gives a slot, or a place in the line, back, and hands out what is free by now.
-- KEYS  holders, line
-- ARGV  id ('': none, only look), limit (0: none)
-- Returns {word, id...}: whom to ring since they were given a slot
if ARGV[1] ~= '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
hand_out(KEYS[1], KEYS[2], tonumber(ARGV[2]))
return {'vacated', unpack(to_ring(KEYS[1]))}
