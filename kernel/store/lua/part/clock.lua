-- The one clock, read once per script. Over 2^53 nothing is a number; microseconds are safe until 2255.
local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now = math.floor(now_us / 1000)
local function whole(number) return string.format('%.0f', number) end
local now_text = whole(now)
