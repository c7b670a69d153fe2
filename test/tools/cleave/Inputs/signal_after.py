# signal_after.py SIGNAL TEXT COMMAND...: sends the signal as soon as a line of what the command prints has the text; then
# shows the command's errors and its exit code, as a shell counts it.
import signal
import subprocess
import sys

name, text, command = sys.argv[1], sys.argv[2], sys.argv[3:]
process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
sent = False
for line in process.stdout:
    if not sent and text in line:
        process.send_signal(getattr(signal, "SIG" + name))
        sent = True
    elif text not in line:
        print(line, end="")
code = process.wait()
print("exit code", 128 - code if code < 0 else code)
