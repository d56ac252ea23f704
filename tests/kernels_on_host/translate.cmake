# cmake -D FROM=x.cu -D TO=x.cc -P translate.cmake: makes C++ of launches; host_device.h says what they mean then.
file(READ ${FROM} text)
string(REPLACE "<<<" " ->*::paceline::host_device::Launch(" text "${text}")
string(REPLACE ">>>(" ") ->*::paceline::host_device::arguments_of(" text "${text}")
file(WRITE ${TO} "#line 1 \"${FROM}\"\n${text}")
