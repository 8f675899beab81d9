-- The fields of a record's hash that a script changes, each followed by its value, which the script
-- writes by one call: a call costs more than a field.
local function put(fields, name, value)
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end
