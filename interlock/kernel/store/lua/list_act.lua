-- Lists an act of a person; about the newest `length` of them are kept.
-- KEYS     acts
-- ARGV     record, what was done, who did it, roles, reason, length
-- Returns  {position}
local acts = KEYS[1]
local record = ARGV[1]
local what = ARGV[2]
local actor = ARGV[3]
local roles = ARGV[4]
local reason = ARGV[5]
local length = ARGV[6]

local fields = {'record', record, 'what', what, 'by', actor, 'roles', roles, 'reason', reason}
return {redis.call('XADD', acts, 'MAXLEN', '~', length, '*', unpack(fields))}
