"""temp"""
def finish(folder, complete, report):
    return None
