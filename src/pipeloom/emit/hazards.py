def insert_wait_states(lines, target):
    return lines
